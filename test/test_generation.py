"""Generation with a decoder's export, beside a greedy loop of onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import mgx_mlir
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.importer.loading import load
from mgx_mlir.models.generation import Decoder, Sampling, cache
from mgx_mlir.models.generation.decoder import Run
from mgx_mlir.models.generation.form import Form
from mgx_mlir.models.generation.last_rows import ROWS, cut
from mgx_mlir.models.generation.speculation import speculate
from mgx_mlir.tools.mgx import main
from test.decoder_models import SHARED, grouped, llama
from test.dynamic_models import MODELS

PROMPTS = [[3, 17, 5, 40], [8], [21, 2, 9]]


def greedy(model, prompt: list[int], count: int) -> list[int]:
    """The tokens that onnxruntime gives for one prompt, without padding."""
    session = onnxruntime.InferenceSession(model.SerializeToString())
    types = {value.name: value.type.tensor_type for value in model.graph.input}
    names = list(types)
    caches = {
        n: np.zeros((1, SHARED, 0, types[n].shape.dim[3].dim_value), np.float32)
        for n in names
        if n.startswith("past")
    }
    ids, found = np.array([prompt]), []
    for _ in range(count):
        total = caches["past_key_values.0.key"].shape[2] + ids.shape[1]
        given = {
            "input_ids": ids,
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(total - ids.shape[1], total)[None],
        }
        given = {n: v for n, v in given.items() if n in names}
        logits, *present = session.run(None, {**given, **caches})
        caches = dict(zip(caches, present, strict=True))
        found.append(int(logits[0, -1].argmax()))
        ids = np.array([found[-1:]])
    return found


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return Decoder(llama(), warm=None)


def of_fixed_length(packed: bool) -> onnx.ModelProto:
    """One whose caches have 24 places."""
    model = grouped(packed)
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name.startswith("past"):
            dims[2].dim_value = 24
    return model


FORMS = {
    "appended": (Form.APPENDED, llama(), llama()),
    "placed": (Form.PLACED, llama(static=24), llama()),
    "grouped": (Form.GROUPED, grouped(), grouped()),
    "grouped, rotated apart": (Form.GROUPED, grouped(False), grouped(False)),
    "grouped, of fixed length": (Form.GROUPED, of_fixed_length(True), grouped()),
    "grouped, a window": (Form.GROUPED, grouped(window=3), grouped(window=3)),
}


@pytest.mark.parametrize("name", FORMS)
def test_greedy_tokens_are_onnxruntimes(name: str) -> None:
    """Prompts of unequal length by one program, and more tokens by another for steps of a size."""
    form, model, plain = FORMS[name]
    decoder = Decoder(model, warm=4)
    assert decoder.form is form
    found = decoder.generate(PROMPTS, max_new_tokens=6)
    wanted = [greedy(plain, prompt, 6) for prompt in PROMPTS]
    assert found == wanted
    decoder.model.wait()
    assert decoder.model.compiled == 2
    assert decoder.generate(PROMPTS, max_new_tokens=6) == wanted
    assert decoder.model.compiled == 2


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
@pytest.mark.parametrize("name", ["appended", "grouped", "grouped, a window"])
def test_caches_grow_by_blocks(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a block for new entries at first, and double; one program serves all lengths."""
    monkeypatch.setattr(cache, "BLOCK", 4)
    _, model, plain = FORMS[name]
    decoder = Decoder(model, target, warm=None)
    lengths = []
    reserve = cache.BlockCache.reserve

    def noted(self: cache.BlockCache, entries: int) -> None:
        reserve(self, entries)
        lengths.append(self._length)

    monkeypatch.setattr(cache.BlockCache, "reserve", noted)
    found = decoder.generate(PROMPTS, max_new_tokens=20)
    assert found == [greedy(plain, prompt, 20) for prompt in PROMPTS]
    assert sorted(set(lengths)) == [8, 16, 24]
    assert decoder.model.compiled == 1


def test_caches_may_be_fed_their_lengths() -> None:
    """seqlens_k and total_sequence_length are inputs; caches have room from the start."""
    model = grouped()
    keep = []
    for node in model.graph.node:
        if node.op_type in ("ReduceSum", "Sub", "Shape", "Cast"):
            continue
        if node.op_type == "GroupQueryAttention":
            node.input[5:7] = ["seqlens_k", "total_sequence_length"]
        if node.op_type != "Gather" or node.input[0] == "embeddings":
            keep.append(node)
    del model.graph.node[:]
    model.graph.node.extend(keep)
    (mask,) = [v for v in model.graph.input if v.name == "attention_mask"]
    model.graph.input.remove(mask)
    int32 = onnx.TensorProto.INT32
    model.graph.input.extend([
        onnx.helper.make_tensor_value_info("seqlens_k", int32, ["batch_size"]),
        onnx.helper.make_tensor_value_info("total_sequence_length", int32, []),
    ])  # fmt: skip
    decoder = Decoder(model, warm=None)
    assert decoder.generate(PROMPTS, max_new_tokens=6) == [
        greedy(grouped(), prompt, 6) for prompt in PROMPTS
    ]


def test_a_prompt_has_to_fit_a_fixed_cache() -> None:
    decoder = Decoder(of_fixed_length(True))
    with pytest.raises(UsageError, match=r"4 tokens and 21 new ones; the model's cache has 24"):
        decoder.generate(PROMPTS, max_new_tokens=21)


@pytest.mark.parametrize("model", [llama(), grouped()], ids=["appended", "grouped"])
def test_a_draft_model_changes_no_greedy_token(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft is another model, or the model itself, whose proposals are all taken."""
    decoder, other = Decoder(model, warm=None), Decoder(llama(seed=1), warm=None)
    wanted = greedy(model, PROMPTS[0], 9)
    for draft in (other, decoder):
        for count in (1, 3):
            arguments = {"max_new_tokens": 9, "draft": draft, "draft_tokens": count}
            monkeypatch.setattr(cache, "BLOCK", 5 if count == 3 else 128)  # 3: caches grow
            assert decoder.generate(PROMPTS[:1], **arguments) == [wanted]
    stop = [wanted[4]]
    first = wanted[: wanted.index(stop[0])]
    assert decoder.generate(PROMPTS[:1], stop=stop, draft=other, max_new_tokens=9) == [first]


def test_a_draft_model_keeps_probabilities() -> None:
    """Tokens by rejection have the model's probabilities, whatever the draft's are."""
    rng = np.random.default_rng(0)
    sampling = Sampling(temperature=1.0)
    logits = {"model": rng.normal(size=4), "draft": rng.normal(size=4)}

    class Fixed:
        def __init__(self, name: str) -> None:
            self.logits = logits[name]

        def prompt(self) -> np.ndarray:
            return self.logits[None]

        def step(self, tokens) -> np.ndarray:
            return np.broadcast_to(self.logits, (1, len(tokens[0]), 4))

        def rewind(self, count: int) -> None:
            pass

    pair = (Fixed("model"), Fixed("draft"))
    tokens = [t for (t,) in speculate(pair, [0], 4000, frozenset(), sampling, 3)]
    shares = np.bincount(tokens, minlength=4) / len(tokens)
    np.testing.assert_allclose(shares, sampling.shares(logits["model"], []), atol=0.03)


def test_positions_may_follow_from_the_mask() -> None:
    model = llama(positions=False)
    decoder = Decoder(model)
    assert decoder.generate([PROMPTS[0]], max_new_tokens=4) == [greedy(model, PROMPTS[0], 4)]


@pytest.mark.parametrize("model", [llama(), llama(static=24), grouped()],
                         ids=["appended", "placed", "grouped"])  # fmt: skip
def test_the_prompt_gives_logits_of_the_last_row_alone(model: onnx.ModelProto) -> None:
    """Rows before each sequence's last one take no product with the vocabulary."""
    decoder = Decoder(model, warm=None)
    rows = []
    run = Run.step

    def step(self: Run, *arguments: Any) -> np.ndarray:
        found = run(self, *arguments)
        rows.append(found.shape[1])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "step", step)
        decoder.generate(PROMPTS[:1], max_new_tokens=2)
        decoder.generate(PROMPTS, max_new_tokens=1)
    # On the right of prompts of 4, 1 and 3 tokens there is padding in a grouped cache.
    assert rows == [1, 1, 4 if decoder.form is Form.GROUPED else 1]
    assert decoder.model.compiled == 1


def with_tail(*tail: tuple[str, list[str], dict[str, Any]]) -> onnx.ModelProto:
    """A decoder whose product with the head has work on its logits behind it."""
    model = llama()
    graph = model.graph
    node = next(n for n in graph.node if "logits" in n.output)
    if node.op_type == "Identity":
        graph.node.remove(node)
        node = next(n for n in graph.node if node.input[0] in n.output)
    node.output[0] = "logits/0"
    for number, (kind, inputs, attributes) in enumerate(tail):
        names = [f"logits/{number}" if name == "x" else name for name in inputs]
        output = "logits" if number == len(tail) - 1 else f"logits/{number + 1}"
        graph.node.append(helper.make_node(kind, names, [output], **attributes))
    cap = np.linspace(1, 2, graph.output[0].type.tensor_type.shape.dim[2].dim_value)
    graph.initializer.append(helper.make_tensor("one", TensorProto.INT64, [], [1]))
    graph.initializer.append(helper.make_tensor("cap", TensorProto.FLOAT, [], [30.0]))
    graph.initializer.append(numpy_helper.from_array(cap.astype(np.float32), "bias"))
    return model


TAILS = {
    "capped, as Gemma 2": (("Div", ["x", "cap"], {}), ("Tanh", ["x"], {}),
                           ("Mul", ["cap", "x"], {})),
    "a bias": (("Add", ["bias", "x"], {}),),
    "converted": (("Cast", ["x"], {"to": TensorProto.FLOAT16}),
                  ("Cast", ["x"], {"to": TensorProto.FLOAT})),
}  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_rows_are_cut_before_work_on_each_logit(name: str) -> None:
    model = with_tail(*TAILS[name])
    decoder = Decoder(model, warm=None)
    assert ROWS in decoder.model.inputs
    wanted = [greedy(model, prompt, 3) for prompt in PROMPTS]
    assert decoder.generate(PROMPTS, max_new_tokens=3) == wanted


@pytest.mark.parametrize(
    "tail",
    [
        (("CumSum", ["x", "one"], {}),),
        (("Sub", ["x", "x"], {}),),
        (
            ("Cast", ["input_ids"], {"to": 1}),
            ("ReduceMax", ["x"], {"keepdims": 0}),
            ("Add", ["logits/0", "x"], {}),
        ),
    ],
    ids=["rows that read others", "two readers", "work with an input"],
)
def test_logits_that_need_other_rows_are_not_cut(tail: Any) -> None:
    source = load(with_tail(*tail))
    before = source.model.SerializeToString()
    assert not cut(source, "logits")
    assert source.model.SerializeToString() == before


def test_tokens_come_one_by_one(decoder: Decoder) -> None:
    wanted = greedy(llama(), PROMPTS[0], 5)
    stop = wanted[2]
    first = wanted.index(stop)
    stream = decoder.stream(PROMPTS[:1], max_new_tokens=5, stop=[stop])
    assert [tokens[0] for tokens in stream] == wanted[: first + 1]
    assert decoder.generate(PROMPTS[:1], max_new_tokens=5, stop=[stop]) == [wanted[:first]]


def test_seeds_decide(decoder: Decoder) -> None:
    def tokens(seed: int, prompts: list[list[int]] = PROMPTS) -> list[list[int]]:
        return mgx_mlir.generate(
            decoder, prompts, max_new_tokens=6, temperature=1.5, top_k=20, top_p=0.9, seed=seed
        )

    assert tokens(1) == tokens(1) != tokens(2)
    assert tokens(1, PROMPTS[:1]) == tokens(1)[:1]  # a sequence draws for itself


def test_choices_follow_their_numbers() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05]))

    def drawn(**numbers: float) -> set[int]:
        sampling = Sampling(temperature=1, **numbers)
        (generator,) = sampling.generators(1)
        return {sampling.choose(logits, [], generator) for _ in range(300)}

    assert drawn() == {0, 1, 2, 3}
    assert drawn(top_k=2) == {0, 1}
    assert drawn(top_p=0.7) == {0, 1}
    assert drawn(top_p=0.4) == {0}
    penalised = Sampling(repetition_penalty=4.0)
    (generator,) = penalised.generators(1)
    assert penalised.choose(logits, [0], generator) == 1
    assert penalised.choose(-logits, [3], generator) == 2


@pytest.mark.parametrize(
    ("prompts", "arguments", "message"),
    [
        ([[]], {}, "a prompt is empty"),
        ([[1]], {"max_new_tokens": 0}, "max_new_tokens is 0; it is 1 or more"),
        ([[1]], {"sampling": Sampling(top_p=0)}, "top_p is 0; it is above 0 and at most 1"),
        ([[1]], {"draft_tokens": 0}, "draft_tokens is 0; it is 1 or more"),
    ],
)
def test_wrong_arguments_are_named(decoder: Decoder, prompts, arguments, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        decoder.generate(prompts, **arguments)


def test_other_models_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"generation needs a decoder .* has the inputs x"):
        Decoder(MODELS["mlp"]())


def test_the_verb_prints_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "llama.onnx"
    onnx.save(llama(), path)
    assert main(["generate", str(path), "--ids", "8", "--max-new-tokens", "3"]) == 0
    assert [int(token) for token in capsys.readouterr().out.split()] == greedy(llama(), [8], 3)
    assert main(["generate", str(path), "--prompt", "text"]) != 0
    assert "give --tokenizer tokenizer.json, or --ids" in capsys.readouterr().err
