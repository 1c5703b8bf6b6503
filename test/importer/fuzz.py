"""Damages models in ways that keep them protobufs, and imports or runs them.

    python -m test.importer.fuzz import|run SEED COUNT

Prints each finding; the exit code is their number. What runs is what the host computes.

A process of its own, bounded in memory, so that a crash or a flood shows.
"""

from __future__ import annotations

import random
import re
import resource
import sys
import time
import traceback
import warnings
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper

from mgx_mlir.errors import UserError
from mgx_mlir.importer import parse_onnx, structure
from mgx_mlir.settings import Settings
from mgx_mlir.staged import Model

# Bytes of address space, and seconds for one model.
MEMORY = 8 << 30
SECONDS = 20.0

_NUMBERS = (-(1 << 63), -(1 << 31), -7, -1, 0, 1, 2, 3, 1 << 20, 1 << 40, (1 << 63) - 1)
_FLOATS = (0.0, -1.0, 1e30, float("inf"), float("nan"))


# Of the cases that run: those with values, or sizes, that only the host can hold.
_HOST = re.compile(
    "test_(seq|opt|identity|split_to|str|regex|tfidf|equal_string|nonmax|nonzero|unique|compress|loop"
    "|if_|scan|dropout|training|bernoulli|image|range|topk|ai_onnx_ml_label)"
)


def corpus() -> list[tuple[ModelProto, list[Any]]]:
    """The models of onnx's node tests, each operator in several forms, and their inputs."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    return [(case.model, list(case.data_sets[0][0])) for case in cases]


def graphs(graph: GraphProto) -> list[GraphProto]:
    """A graph and those inside of it."""
    inner = [g for node in graph.node for found in structure.subgraphs(node) for g in graphs(found)]
    return [graph, *inner]


def mutate(model: ModelProto, rng: random.Random) -> str:
    """Changes one thing in the model. Returns what was done."""
    graph = rng.choice(graphs(model.graph))
    change = rng.choice((_inputs, _outputs, _attributes, _tensors, _values, _nodes, _header))
    return f"{change.__name__}: {change(model, graph, rng)}"


def _inputs(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    node = _any(graph.node, rng)
    if node is None:
        return "no node"
    names = [n for other in graph.node for n in (*other.input, *other.output)]
    names += [v.name for v in graph.input] + ["", "nowhere"]
    place = rng.randrange(len(node.input) + 1)
    if place == len(node.input) or rng.random() < 0.3:
        node.input.insert(place, rng.choice(names))
        return f"one more input at {place}"
    if rng.random() < 0.4:
        del node.input[place]
        return f"input {place} deleted"
    node.input[place] = rng.choice(names)
    return f"input {place} is '{node.input[place]}'"


def _outputs(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    node = _any(graph.node, rng)
    if node is None or not node.output:
        return "no output"
    place = rng.randrange(len(node.output))
    if rng.random() < 0.5:
        del node.output[place]
        return f"output {place} deleted"
    node.output.insert(place, rng.choice(("", "more", *node.output)))
    return f"one more output at {place}"


def _attributes(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    node = _any(graph.node, rng)
    if node is None or not node.attribute:
        return "no attribute"
    place = rng.randrange(len(node.attribute))
    attribute = node.attribute[place]
    kind = rng.randrange(5)
    if kind == 0:
        del node.attribute[place]
        return f"attribute {place} deleted"
    if kind == 1:
        attribute.name = rng.choice(("axis", "to", "value", "mode", "pads", "unheard"))
    elif kind == 2:
        attribute.type = rng.choice(AttributeProto.AttributeType.values())
    elif attribute.ints:
        _change_ints(attribute.ints, rng)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(_FLOATS)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice((b"", b"linear", b"\xff\xfe", b"NOTSET", b"a->b,(", b"reverse"))
    else:
        attribute.i = rng.choice(_NUMBERS)
    return f"attribute {attribute.name} of {node.op_type}, change {kind}"


def _tensors(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    tensors = [*graph.initializer]
    tensors += [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    tensor = _any(tensors, rng)
    if tensor is None:
        return "no tensor"
    kind = rng.randrange(4)
    if kind == 0:
        tensor.data_type = rng.choice(TensorProto.DataType.values())
    elif kind == 1:
        _change_ints(tensor.dims, rng)
    elif kind == 2:
        tensor.raw_data = rng.randbytes(rng.randrange(20))
    else:
        values = [rng.choice(_NUMBERS) for _ in range(rng.randrange(4))]
        tensor.CopyFrom(helper.make_tensor(tensor.name, TensorProto.INT64, [len(values)], values))
    return f"tensor '{tensor.name}', change {kind}"


def _values(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    value = _any([*graph.input, *graph.output], rng)
    if value is None:
        return "no value"
    tensor = value.type.tensor_type
    kind = rng.randrange(5)
    if kind == 0:
        tensor.elem_type = rng.choice(TensorProto.DataType.values())
    elif kind == 1:
        tensor.ClearField("shape")
    elif kind == 2:
        tensor.shape.dim.add(dim_value=rng.choice(_NUMBERS))
    elif kind == 3 and tensor.shape.dim:
        _any(tensor.shape.dim, rng).dim_value = rng.choice(_NUMBERS)
    else:
        value.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    return f"value '{value.name}', change {kind}"


def _nodes(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    node = _any(graph.node, rng)
    if node is None:
        return "no node"
    kind = rng.randrange(4)
    if kind == 0:
        node.op_type = rng.choice([s.name for s in onnx.defs.get_all_schemas()])
    elif kind == 1:
        graph.node.add().CopyFrom(node)
    elif kind == 2:
        graph.node.remove(node)
    else:
        node.domain = rng.choice(("ai.onnx.ml", "com.microsoft", "elsewhere"))
    return f"node {node.op_type}, change {kind}"


def _header(model: ModelProto, graph: GraphProto, rng: random.Random) -> str:
    entry = _any(model.opset_import, rng)
    if entry is not None:
        entry.version = rng.choice((0, 1, 6, 7, 9, 11, 13, 17, 21, 24, 999))
    return f"opset {entry.version if entry is not None else None}"


def _change_ints(numbers, rng: random.Random) -> None:
    kind = rng.randrange(3)
    if kind == 0 or not numbers:
        numbers.append(rng.choice(_NUMBERS))
    elif kind == 1:
        del numbers[rng.randrange(len(numbers))]
    else:
        numbers[rng.randrange(len(numbers))] = rng.choice(_NUMBERS)


def _any(choices, rng: random.Random):
    return rng.choice(choices) if len(choices) else None


def run(model: ModelProto, inputs: list[Any], rng: random.Random) -> None:
    """Runs a model on inputs that may be in another order."""
    staged = Model(model, settings=Settings(cache_dir=None, jobs=1, threads=1))
    if rng.random() < 0.3:
        rng.shuffle(inputs)
    staged.run(dict(zip(staged.inputs, inputs, strict=False)))


def main(what: str, seed: int, count: int) -> int:
    """Damages and tries `count` models; the number of those that did not end as they should."""
    cases = corpus()
    if what == "run":
        cases = [case for case in cases if _HOST.match(case[0].graph.name)]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rng = random.Random(seed)
    findings = 0
    for number in range(count):
        original, inputs = rng.choice(cases)
        model = ModelProto()
        model.CopyFrom(original)
        done = [mutate(model, rng) for _ in range(rng.choice((1, 1, 2, 4)))]
        shown = f"{what}, seed {seed} number {number}, {model.graph.name}: {'; '.join(done)}"
        print(shown, file=sys.stderr, flush=True)  # the last line names the model of a crash
        started = time.monotonic()
        problem = ""
        try:
            if what == "run":
                run(model, list(inputs), rng)
            else:
                parse_onnx(model)
        except UserError:
            pass
        except Exception as error:
            frame = traceback.extract_tb((error.__cause__ or error).__traceback__)[-1]
            problem = f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
        taken = time.monotonic() - started
        if not problem and taken > SECONDS:
            problem = f"{taken:.0f} seconds"
        if problem:
            findings += 1
            print(f"{shown}\n    {problem}", flush=True)
    return findings


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), 100))
