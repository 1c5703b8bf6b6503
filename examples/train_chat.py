"""Trains a tiny decoder for `chat.py`, in plain numpy, in about a minute.

    pip install numpy onnx tokenizers
    python examples/train_chat.py chat/
    python examples/chat.py chat/model.onnx chat/tokenizer.json --stop 0 --temperature 0

Writes model.onnx, of the form that onnxruntime-genai exports (GroupQueryAttention with a cache),
and tokenizer.json, whose tokens are the letters of ASCII; 0 is the end of a line. The decoder
learns a dozen questions about this project by heart. The same seed gives the same data.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LETTERS = "\n" + "".join(map(chr, range(32, 127)))
WIDTH, HEADS, LAYERS, INNER, PLACES = 64, 4, 2, 192, 1024
EACH = WIDTH // HEADS
EPSILON = 1e-6
BATCH, LENGTH, WARM, RATE = 12, 160, 30, 4e-3
WINDOW = 96  # letters that a query sees, so that a long chat is as its end

ANSWERS = {
    "hi": "Hello! Ask me about mgx.",
    "who are you": "A very small decoder with two layers.",
    "what is mgx": "A compiler from ONNX to AMD GPUs.",
    "does it need a gpu": "Not to compile. An emulated one runs the code, too.",
    "what is an artifact": "One file: kernels as bytecode, weights and a plan.",
    "which chips": "From gfx908 to gfx1250; finalize for any.",
    "how do i compile": "mgx compile model.onnx -o model.mgx",
    "how do i run it": "mgx run model.mgx --input x=x.npy",
    "is it fast": "Measure: mgx perf model.onnx.",
    "what is gfxmigx": "A dummy architecture. Portable kernels are for it.",
    "can it quantize": "Yes: mgx quantize model.onnx --int8 -o small.onnx",
    "thank you": "You are welcome.",
    "bye": "Good bye!",
}

Arrays = dict[str, np.ndarray]


def dialogue(rng: np.random.Generator, length: int) -> np.ndarray:
    """Tokens of questions in any order, with or without a capital and a question mark."""
    text = ""
    while len(text) < length:
        question, answer = list(ANSWERS.items())[rng.integers(len(ANSWERS))]
        if rng.random() < 0.5:
            question = question.capitalize()
        text += f"User: {question}{'?' * rng.integers(2)}\nAssistant: {answer}\n"
    return np.array([LETTERS.index(c) for c in text[:length]])


def initial(rng: np.random.Generator) -> Arrays:
    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    found = {"embeddings": normal(len(LETTERS), WIDTH), "head": normal(WIDTH, len(LETTERS))}
    found |= {"last": ones.copy()}
    for i in range(LAYERS):
        found |= {f"{i}.first": ones.copy(), f"{i}.qkv": normal(WIDTH, 3 * WIDTH)}
        found |= {f"{i}.o": normal(WIDTH, WIDTH), f"{i}.second": ones.copy()}
        found |= {f"{i}.up": normal(WIDTH, INNER), f"{i}.down": normal(INNER, WIDTH)}
    return found


def angles(places: int) -> np.ndarray:
    return np.outer(np.arange(places), 100.0 ** (-np.arange(EACH // 2) / (EACH // 2)))


def rotated(x: np.ndarray, sign: int = 1) -> np.ndarray:
    """Queries or keys (batch, heads, length, EACH), turned by their places."""
    cos, sin = (f(angles(x.shape[2])).astype(x.dtype) for f in (np.cos, np.sin))
    left, right = np.split(x, 2, -1)
    return np.concatenate([left * cos - sign * right * sin, right * cos + sign * left * sin], -1)


class Network:
    """The decoder and its gradients. `forward` keeps what `backward` reads."""

    def __init__(self, weights: Arrays) -> None:
        self.weights = weights
        self.gradients: Arrays = {}
        self.kept: list[Any] = []

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        root = 1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + EPSILON)
        self.kept.append((x * root, root))
        return x * root * self.weights[name]

    def _norm_back(self, dy: np.ndarray, name: str) -> np.ndarray:
        y, root = self.kept.pop()
        self.gradients[name] = (dy * y).sum((0, 1))
        dy = dy * self.weights[name]
        return root * (dy - y * np.mean(dy * y, -1, keepdims=True))

    def _dense(self, x: np.ndarray, name: str) -> np.ndarray:
        self.kept.append(x)
        return x @ self.weights[name]

    def _dense_back(self, dy: np.ndarray, name: str) -> np.ndarray:
        x = self.kept.pop()
        self.gradients[name] = x.reshape(-1, x.shape[-1]).T @ dy.reshape(-1, dy.shape[-1])
        return dy @ self.weights[name].T

    def _attention(self, qkv: np.ndarray) -> np.ndarray:
        """(batch, length, 3 * WIDTH) to (batch, length, WIDTH)."""
        batch, length, _ = qkv.shape
        q, k, v = qkv.reshape(batch, length, 3, HEADS, EACH).transpose(2, 0, 3, 1, 4)
        q, k = rotated(q) * np.float32(EACH**-0.5), rotated(k)
        seen = np.tri(length, dtype=bool) & ~np.tri(length, k=-WINDOW, dtype=bool)
        scores = np.where(seen, q @ k.swapaxes(2, 3), np.float32(-1e9))
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        self.kept.append((q, k, v, shares))
        return (shares @ v).transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)

    def _attention_back(self, dy: np.ndarray) -> np.ndarray:
        q, k, v, shares = self.kept.pop()
        batch, length, _ = dy.shape
        dy = dy.reshape(batch, length, HEADS, EACH).transpose(0, 2, 1, 3)
        dscores = dy @ v.swapaxes(2, 3)
        dscores = shares * (dscores - (dscores * shares).sum(-1, keepdims=True))
        dq = rotated(dscores @ k, -1) * np.float32(EACH**-0.5)
        dk, dv = rotated(dscores.swapaxes(2, 3) @ q, -1), shares.swapaxes(2, 3) @ dy
        return np.stack([dq, dk, dv]).transpose(1, 3, 0, 2, 4).reshape(batch, length, -1)

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        """Logits (batch, length, letters) of tokens (batch, length)."""
        self.kept = [tokens]
        x = self.weights["embeddings"][tokens]
        for i in range(LAYERS):
            y = self._attention(self._dense(self._norm(x, f"{i}.first"), f"{i}.qkv"))
            x = x + self._dense(y, f"{i}.o")
            y = self._dense(self._norm(x, f"{i}.second"), f"{i}.up")
            self.kept.append(y > 0)
            x = x + self._dense(np.maximum(y, 0), f"{i}.down")
        return self._dense(self._norm(x, "last"), "head")

    def backward(self, dlogits: np.ndarray) -> None:
        """Fills `gradients` with those of all weights."""
        dx = self._norm_back(self._dense_back(dlogits, "head"), "last")
        for i in reversed(range(LAYERS)):
            dy = self._dense_back(dx, f"{i}.down") * self.kept.pop()
            dx = dx + self._norm_back(self._dense_back(dy, f"{i}.up"), f"{i}.second")
            dy = self._attention_back(self._dense_back(dx, f"{i}.o"))
            dx = dx + self._norm_back(self._dense_back(dy, f"{i}.qkv"), f"{i}.first")
        self.gradients["embeddings"] = np.zeros_like(self.weights["embeddings"])
        np.add.at(self.gradients["embeddings"], self.kept.pop(), dx)

    def loss(self, tokens: np.ndarray) -> float:
        """Mean cross entropy of the next letters, in nats, with its gradients."""
        logits = self.forward(tokens[:, :-1])
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        wanted = np.eye(len(LETTERS), dtype=np.float32)[tokens[:, 1:]]
        count = wanted.shape[0] * wanted.shape[1]
        self.backward((shares - wanted) / np.float32(count))
        return float(-np.log((shares * wanted).sum(-1) + 1e-12).mean())


def train(steps: int, seed: int = 7) -> Arrays:
    """Adam, with a rate that rises for WARM steps and then falls to nothing."""
    rng = np.random.default_rng(seed)
    network = Network(initial(rng))
    first = {name: np.zeros_like(w) for name, w in network.weights.items()}
    second = {name: np.zeros_like(w) for name, w in network.weights.items()}
    for step in range(1, steps + 1):
        loss = network.loss(np.stack([dialogue(rng, LENGTH) for _ in range(BATCH)]))
        rate = RATE * min(step / WARM, 0.5 + 0.5 * np.cos(np.pi * step / steps))
        for name, gradient in network.gradients.items():
            first[name] += 0.1 * (gradient - first[name])
            second[name] += 0.02 * (gradient * gradient - second[name])
            mean = first[name] / (1 - 0.9**step)
            spread = np.sqrt(second[name] / (1 - 0.98**step)) + 1e-8
            network.weights[name] -= np.float32(rate) * mean / spread
        if step % 50 == 0 or step == steps:
            print(f"step {step} of {steps}: loss {loss:.3f}", flush=True)
    return network.weights


def exported(weights: Arrays) -> onnx.ModelProto:
    """input_ids, attention_mask and past_key_values.N to logits and present.N."""
    held = dict(weights)
    held |= {"cos": np.cos(angles(PLACES)), "sin": np.sin(angles(PLACES))}
    held = {name: value.astype(np.float32) for name, value in held.items()}
    held |= {"one": np.array([1]), "at": np.array(1)}
    n = helper.make_node
    nodes = [
        n("ReduceSum", ["attention_mask", "one"], ["counts"], keepdims=1),
        n("Sub", ["counts", "one"], ["places"]),
        n("Cast", ["places"], ["ends"], to=TensorProto.INT32),
        n("Shape", ["attention_mask"], ["sizes"]),
        n("Gather", ["sizes", "at"], ["length"], axis=0),
        n("Cast", ["length"], ["total"], to=TensorProto.INT32),
        n("Gather", ["embeddings", "input_ids"], ["x0"]),
    ]
    caches, x = [], "x0"

    def add(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"y{len(nodes)}"
        nodes.append(n(kind, inputs, [name], **attributes))
        return name

    def norm(x: str, name: str) -> str:
        return add("SimplifiedLayerNormalization", x, name, axis=-1, epsilon=EPSILON)

    for i in range(LAYERS):
        past = [f"past_key_values.{i}.{part}" for part in ("key", "value")]
        present = [f"present.{i}.{part}" for part in ("key", "value")]
        caches.append((past, present))
        qkv = add("MatMul", norm(x, f"{i}.first"), f"{i}.qkv")
        given = [qkv, "", "", *past, "ends", "total", "cos", "sin"]
        heads = {"num_heads": HEADS, "kv_num_heads": HEADS, "do_rotary": 1}
        nodes.append(n("GroupQueryAttention", given, [f"a{i}", *present], domain="com.microsoft",
                       local_window_size=WINDOW, **heads))  # fmt: skip
        x = add("Add", x, add("MatMul", f"a{i}", f"{i}.o"))
        y = add("Relu", add("MatMul", norm(x, f"{i}.second"), f"{i}.up"))
        x = add("Add", x, add("MatMul", y, f"{i}.down"))
    nodes.append(n("MatMul", [norm(x, "last"), "head"], ["logits"]))

    def value(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [value("input_ids", TensorProto.INT64, "batch", "tokens"),
              value("attention_mask", TensorProto.INT64, "batch", "total")]  # fmt: skip
    outputs = [value("logits", TensorProto.FLOAT, "batch", "tokens", len(LETTERS))]
    for past, present in caches:
        inputs += [value(p, TensorProto.FLOAT, "batch", HEADS, "past", EACH) for p in past]
        outputs += [value(p, TensorProto.FLOAT, "batch", HEADS, "total", EACH) for p in present]
    constants = [numpy_helper.from_array(v, name) for name, v in held.items()]
    graph = helper.make_graph(nodes, "chat", inputs, outputs, constants)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def tokenizer() -> dict[str, Any]:
    """The package tokenizers' file: byte pairs that never merge. Unknown letters are '?'."""
    vocabulary = {letter: index for index, letter in enumerate(LETTERS)}
    model = {"type": "BPE", "unk_token": "?", "vocab": vocabulary, "merges": []}
    return {"version": "1.0", "added_tokens": [], "model": model, "decoder": {"type": "Fuse"}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where model.onnx and tokenizer.json come to lie")
    parser.add_argument("--steps", type=int, default=250)
    options = parser.parse_args()
    weights = train(options.steps)
    options.folder.mkdir(parents=True, exist_ok=True)
    onnx.save(exported(weights), options.folder / "model.onnx")
    (options.folder / "tokenizer.json").write_text(json.dumps(tokenizer()))


if __name__ == "__main__":
    main()
