"""Random recurrent networks of all forms, against onnxruntime.

    python -m test.fuzz.recurrent [--seed 0] [--count 300]

A case is RNN, GRU or LSTM in one direction or both, with whatever is optional there or not. The
oracle has no `layout`: it gets the transposed tensors of layout 0.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.settings import Settings

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
# Functions with the numbers that they take: alpha, beta.
ACTIVATIONS: dict[str, tuple[float, ...]] = {
    "Affine": (0.5, 0.25),
    "Elu": (0.75,),
    "HardSigmoid": (0.3, 0.4),
    "LeakyRelu": (0.2,),
    "Relu": (),
    "ScaledTanh": (0.75, 0.5),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": (0.25,),
}


@dataclass
class Case:
    """One node, the arrays of its inputs (None: absent) in layout 0, and its attributes."""

    operator: str
    layout: int
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shapes = [None if a is None else list(a.shape) for a in self.inputs]
        return f"{self.operator} layout {self.layout}, inputs {shapes}, {self.attributes}"

    @property
    def outputs(self) -> list[str]:
        """Y, Y_h and, of LSTM, Y_c."""
        return ["y", "y_h", "y_c"][: 3 if self.operator == "LSTM" else 2]

    def model(self, layout: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model in a layout, and what it is fed with; weights are constants."""
        arrays = {f"i{n}": a for n, a in enumerate(self.inputs) if a is not None}
        if layout:
            arrays |= {n: a.swapaxes(0, 1).copy() for n, a in arrays.items() if n in _BATCHED}
        names = [f"i{n}" if a is not None else "" for n, a in enumerate(self.inputs)]
        attributes = self.attributes | ({"layout": 1} if layout else {})
        node = helper.make_node(self.operator, names, self.outputs, "net", **attributes)
        fed = {n: a for n, a in arrays.items() if n in (*_BATCHED, "i4")}
        graph = helper.make_graph(
            [node],
            "recurrent",
            [_info(n, a) for n, a in fed.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in self.outputs],
            [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed],
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8), fed


# The sequence and the first states, whose batch comes first in layout 1.
_BATCHED = ("i0", "i5", "i6")


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    number = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, number, array.shape)


def case(seed: int) -> Case:
    """The case of a seed."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)

    def some(*shape: int) -> np.ndarray:
        return numbers.normal(0, 0.5, shape).astype(np.float32)

    def maybe(array: np.ndarray) -> np.ndarray | None:
        return array if rng.random() < 0.5 else None

    operator = rng.choice(tuple(GATES))
    direction = rng.choice(("forward", "reverse", "bidirectional"))
    both, gates = 2 if direction == "bidirectional" else 1, GATES[operator]
    length, batch, size, hidden = (rng.choice(n) for n in ((1, 2, 5), (1, 3), (1, 4), (1, 2, 5)))
    lengths = numbers.integers(1, length + 1, batch).astype(np.int32)
    inputs = [
        some(length, batch, size),
        some(both, gates * hidden, size),
        some(both, gates * hidden, hidden),
        maybe(some(both, 2 * gates * hidden)),
        maybe(lengths),
        maybe(some(both, batch, hidden)),
    ]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if operator == "LSTM":
        inputs += [maybe(some(both, batch, hidden)), maybe(some(both, 3 * hidden))]
        attributes["input_forget"] = int(rng.random() < 0.3)
    if operator == "GRU":
        attributes["linear_before_reset"] = int(rng.random() < 0.5)
    if rng.random() < 0.3:
        attributes["clip"] = rng.choice((0.1, 0.5, 3.0))
    if rng.random() < 0.5:
        attributes |= _activations(rng, len(DEFAULTS[operator]) * both)
    return Case(operator, int(rng.random() < 0.4), inputs, attributes)


def _activations(rng: random.Random, count: int) -> dict[str, Any]:
    names = [rng.choice(tuple(ACTIVATIONS)) for _ in range(count)]
    alphas = [ACTIVATIONS[n][0] for n in names if ACTIVATIONS[n]]
    betas = [ACTIVATIONS[n][1] for n in names if len(ACTIVATIONS[n]) > 1]
    found: dict[str, Any] = {"activations": names}
    if alphas:
        found["activation_alpha"] = alphas
    if betas:
        found["activation_beta"] = betas
    return found


def expected(one: Case) -> list[np.ndarray]:
    """The results of onnxruntime, in the case's layout."""
    model, fed = one.model(0)
    session = onnxruntime.InferenceSession(model.SerializeToString(), _quiet())
    y, *states = session.run(None, fed)
    if one.layout:
        return [y.transpose(2, 0, 1, 3), *(s.swapaxes(0, 1) for s in states)]
    return [y, *states]


def _quiet() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return options


def check(one: Case) -> str:
    """'' where the compiled program agrees with onnxruntime, else what is wrong."""
    model, fed = one.model(one.layout)
    settings = Settings(cache_dir=None, jobs=1, threads=1)
    found = mgx_mlir.compile(model, "cpu", settings=settings).run(fed)
    for name, wanted in zip(one.outputs, expected(one), strict=True):
        if found[name].shape != wanted.shape:
            return f"{name} is {found[name].shape}, not {wanted.shape}"
        worst = np.abs(found[name] - wanted).max(initial=0)
        if not worst < 1e-4 * (1 + np.abs(wanted).max(initial=0)):
            return f"{name} is off by {worst:.3g}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    wrong = 0
    for seed in range(options.seed, options.seed + options.count):
        one = case(seed)
        try:
            found = check(one)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            wrong += 1
            print(f"{seed}: {one}\n    {found}", flush=True)
    print(f"{options.count} networks, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
