"""The work of onnx's own library on a model before it is converted."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
import onnx.version_converter
from onnx import TensorProto, TypeProto, numpy_helper

from mgx_mlir.errors import ModelError, UnsupportedError, UsageError, UserError
from mgx_mlir.importer import (
    bags,
    budget,
    channel_blocks,
    forms,
    functions,
    gradient,
    labels,
    ranges,
    repairs,
    structure,
    symbols,
    tensor_data,
)
from mgx_mlir.importer.loading import Source
from mgx_mlir.sizes.range import Given, Range
from mgx_mlir.suggest import instead, listed

_log = logging.getLogger(__name__)

# Converters understand operators as they are from this opset; older models are converted.
OLDEST_OPSET = 7
_UNSTATED = 13
_LONGEST_VECTOR = 1 << 17
_OF_STRINGS = {("com.microsoft", "Tokenizer")}


def fix_inputs(source: Source, values: Mapping[str, np.ndarray]) -> Source:
    """The source with inputs made constants. Raises UsageError where there is no such input."""
    for name in values:
        if name not in source.inputs:
            hint = instead(name, source.inputs, f"its inputs are {listed(source.inputs)}")
            raise UsageError(f"the model has no input '{name}'; {hint}")
    if not values:
        return source
    graph = source.model.graph
    for value in graph.input:
        if value.name in values:
            _check_fixed(value, values[value.name])
    kept = [v for v in graph.input if v.name not in values]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in values.items())
    return replace(source, inputs=tuple(n for n in source.inputs if n not in values))


def _check_fixed(declared: onnx.ValueInfoProto, array: np.ndarray) -> None:
    """Raises UsageError where an array is no value of the input that is declared."""
    tensor = declared.type.tensor_type
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    fits = not tensor.HasField("shape") or (
        len(sizes) == array.ndim
        and all(n is None or n < 0 or n == m for n, m in zip(sizes, array.shape, strict=True))
    )
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type or TensorProto.FLOAT))
    if not fits or (tensor.elem_type and kind != array.dtype):
        shown = ", ".join("?" if n is None else str(n) for n in sizes)
        raise UsageError(
            f"input '{declared.name}' is {kind.name}[{shown}]; the value that is built in is "
            f"{array.dtype.name}{list(array.shape)}"
        )


def prepare(
    source: Source,
    input_dims: Mapping[str, Sequence[int | Range]],
    dim_params: Mapping[str, Given],
    default_dim: int | Range | None,
) -> dict[str, Range]:
    """Sorts, inlines, converts and checks the model, and binds its inputs' sizes.

    Returns the ranges that are given, by the name of the dimension. Raises ModelError,
    UnsupportedError or UsageError.
    """
    model = source.model
    _check_opsets(model)
    _make_dense(model.graph)
    structure.normalise(model)
    repairs.repair(model)
    if model.functions:
        budget.check_calls(model)
        model = functions.inline(model)
        structure.normalise(model)
        repairs.repair(model)
    labels.split(model.graph)
    channel_blocks.state(model)
    bags.replace(model)
    given = (input_dims, dim_params, default_dim)
    ranges = symbols.bind(model, source.inputs, *given, source.ranges)
    if opsets(model)[""] < OLDEST_OPSET:
        _spread_slopes(model)
        model = _convert(model)
        structure.normalise(model)
    gradient.expand(model, opsets(model)[""], infer)
    source.model = model
    return ranges


def _make_dense(graph: onnx.GraphProto) -> None:
    """Replaces sparse tensors, which onnx's inference lets no operator read."""
    for sparse in graph.sparse_initializer:
        array = tensor_data.dense_array(sparse, sparse.values.name)
        graph.initializer.append(numpy_helper.from_array(array, sparse.values.name))
    del graph.sparse_initializer[:]
    for node in graph.node:
        for attribute in node.attribute:
            if (node.op_type, attribute.name) == ("Constant", "sparse_value"):
                array = tensor_data.dense_array(attribute.sparse_tensor, node.name)
                tensor = numpy_helper.from_array(array, node.name)
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))
        for inner in structure.subgraphs(node):
            _make_dense(inner)


def check(model: onnx.ModelProto) -> None:
    """onnx's checker, and the checks that it leaves out. Raises ModelError with its words."""
    ranges.check(structure.all_nodes(model.graph))
    budget.check_loops(model.graph)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in copy.graph.output:  # the checker wants shapes, which nothing needs
        if value.type.WhichOneof("value") is None:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.shape.SetInParent()
    forms.hide(copy, opsets(copy))
    with _upstream("onnx's checker refuses the model"):
        onnx.checker.check_model(copy.SerializeToString())


# The names that onnx's inference makes up for sizes.
MADE_UP = "unk__"


def infer(model: onnx.ModelProto) -> dict[str, TypeProto]:
    """The type of every value of the main graph that onnx's inference finds.

    It does not look at operators whose types their converters take, and it does not. Raises
    ModelError where types or shapes contradict each other.
    """
    hidden: set[str] = set()
    declared = True
    while True:
        try:
            return _infer(model, hidden, declared)
        except ModelError as error:
            text = str(error)
            if declared and _OTHER_TYPE in text:
                declared = False
                continue
            operator = forms.lenient_operator(text)
            if not operator or operator in hidden:
                raise
            hidden.add(operator)


# The words of onnx's inference where an output is of another type than the model declares.
_OTHER_TYPE = "differs from existing elem type"


def _infer(model: onnx.ModelProto, hidden: set[str], declared: bool) -> dict[str, TypeProto]:
    """As `infer`, without operators that are `hidden`, and with outputs as `declared` or not."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    forms.hide(copy, opsets(copy), hidden)
    del copy.graph.value_info[:]
    # Operators without a definition that onnx knows: inference goes on from the declared types.
    for node in copy.graph.node:
        if (node.domain, node.op_type) in _OF_STRINGS:
            declared = onnx.helper.make_tensor_value_info(node.output[0], TensorProto.STRING, None)
            copy.graph.value_info.append(declared)
    for value in copy.graph.output:  # models are edited, and keep sizes that no longer hold
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
            if not declared:
                value.type.tensor_type.elem_type = TensorProto.UNDEFINED
    try:
        types = _inferred(copy, strict_mode=True)
    except ModelError as error:
        if _blames_a_function(str(error)):
            return _inferred(copy)
        if not _blames_sizes(str(error)):
            raise
        types = _inferred(copy)
    # Propagation of data finds shapes that the model computes from symbols. It makes a list
    # as long as each vector that it meets.
    found = [*types.values(), *_inner_types(copy.graph)]
    longest = max((_vector_size(t) for t in found), default=0)
    if longest <= _LONGEST_VECTOR and any(_is_symbolic(v.type) for v in copy.graph.input):
        return _inferred(copy, data_prop=True)
    return types


def _inferred(model: onnx.ModelProto, **options: bool) -> dict[str, TypeProto]:
    """The types that onnx's inference finds. Raises ModelError with its words."""
    with _upstream("types or shapes do not fit"):
        graph = onnx.shape_inference.infer_shapes(model, check_type=True, **options).graph
    budget.check_sizes(graph)
    return {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}


def _inner_types(graph: onnx.GraphProto) -> Iterator[TypeProto]:
    """The types that graphs inside of a graph declare."""
    for node in graph.node:
        for inner in structure.subgraphs(node):
            yield from (v.type for v in (*inner.input, *inner.value_info, *inner.output))
            yield from _inner_types(inner)


def _vector_size(type_: TypeProto) -> int:
    dims = type_.tensor_type.shape.dim
    return int(dims[0].dim_value) if len(dims) == 1 else 0


def _is_symbolic(type_: TypeProto) -> bool:
    return any(not d.HasField("dim_value") for d in type_.tensor_type.shape.dim)


def _blames_a_function(message: str) -> bool:
    """Whether inference failed inside the body of an operator, which says nothing of the model.

    Bodies are written for some opsets, and onnx looks at them in others too.
    """
    names = re.findall(r"op_type:\s*(\w+)", message)
    if not names or not onnx.defs.has(names[0]):
        return False
    schema = onnx.defs.get_schema(names[0])
    return bool(schema.has_function or schema.has_context_dependent_function)


def _blames_sizes(message: str) -> bool:
    """Whether inference failed for sizes, or inside of an If: those that a run takes have to fit.

    onnx's inference finds wrong sizes for some operators (STFT); converters compare them again, but
    do not look for sizes beyond 64 bits.
    """
    if "overflow" in message:
        return False
    first = re.search(r"op_type:[^)]*\): \[(\w+)\]", message)
    if first is not None and first[1] == "ShapeInferenceError":
        return True
    return "If" in re.findall(r"op_type:\s*(\w+)", message)


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The opset of each domain that the model imports; 'ai.onnx' is ''."""
    return {_domain(o.domain): o.version for o in model.opset_import}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _check_opsets(model: onnx.ModelProto) -> None:
    if not model.opset_import:
        # As MIGraphX takes it. Nodes in the forms of other opsets are theirs.
        assumed = _UNSTATED if model.ir_version >= 3 else 1
        _log.warning("the model imports no opset; it is read as one of opset %d", assumed)
        model.opset_import.add(domain="", version=assumed)
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = _domain(entry.domain)
        if versions.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"the model imports two versions of opset '{domain}'")
    newest = onnx.defs.onnx_opset_version()
    version = versions.get("")
    if version is None:
        model.opset_import.add(domain="", version=newest)
    elif version > newest:
        raise UnsupportedError(
            f"the model has opset {version}; opsets up to {newest} are known (onnx "
            f"{onnx.__version__}); export it with an older opset"
        )
    elif version < 1:
        raise ModelError(f"there is no opset {version}")
    if model.ir_version > onnx.IR_VERSION:
        raise UnsupportedError(
            f"the file has ONNX IR version {model.ir_version}; versions up to "
            f"{onnx.IR_VERSION} are known"
        )


def _spread_slopes(model: onnx.ModelProto) -> None:
    """Gives slopes of PRelu, which ran along the channels up to opset 6, sizes that repeat so."""
    nodes = [n for n in model.graph.node if n.op_type == "PRelu" and len(n.input) == 2]
    types = infer(model) if nodes else {}
    found = {name: len(type_.tensor_type.shape.dim) for name, type_ in types.items()}
    found |= {weight.name: len(weight.dims) for weight in model.graph.initializer}
    for node in nodes:
        ranks = [found[name] for name in node.input if name in found]
        if len(ranks) == 2 and ranks[0] > 2 and ranks[1] == 1:
            spread = f"{node.output[0]}.slope"
            axes = list(range(1, ranks[0] - 1))
            added = onnx.helper.make_node("Unsqueeze", [node.input[1]], [spread], axes=axes)
            model.graph.node.insert(list(model.graph.node).index(node), added)
            node.input[1] = spread


def _convert(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in the oldest opset that is read; onnx's converter lacks operators and axes.

    Nodes that it does not convert stay in their form, which is read, or named for what is not.
    """
    version = opsets(model)[""]
    try:
        with _upstream(f"opset {version} is not converted to {OLDEST_OPSET}"):
            return onnx.version_converter.convert_version(model, OLDEST_OPSET)
    except ModelError as error:
        _log.warning("%s; its nodes are read as they are", error)
    for entry in model.opset_import:
        if not _domain(entry.domain):
            entry.version = OLDEST_OPSET
    return model


@contextlib.contextmanager
def _upstream(what: str, kind: type[UserError] = ModelError) -> Iterator[None]:
    """Around a call of onnx's library: any exception of it becomes one of type `kind`.

    It raises errors of its own and, for numbers too large, those of C++: MemoryError too.
    """
    try:
        yield
    except Exception as error:
        raise kind(f"{what}: {_first_lines(error)}") from error


def _first_lines(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3]) or type(error).__name__
