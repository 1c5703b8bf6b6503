"""Damages models in ways that keep them protobufs. test/fuzz/mutants.py tries what it gives."""

from __future__ import annotations

import random
import warnings

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper

from mgx_mlir.importer import structure
from test.onnx_models import small

_NUMBERS = (-(1 << 63), -(1 << 31), -7, -1, 0, 1, 2, 3, 1 << 20, 1 << 40, (1 << 63) - 1)
_FLOATS = (0.0, -1.0, 1e30, float("inf"), float("nan"))


def corpus() -> list[ModelProto]:
    """The models of onnx's node tests, each operator in several forms, and small nets."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    nets = [small(name) for name in ("bert", "gpt2", "lstm", "resnet", "vit")]
    return [*(case.model for case in cases), *nets * 4]


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
