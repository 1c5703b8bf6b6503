"""PyTorch's programs as models: ONNX in memory, whose weights stay where torch has them.

Knows torch by the objects that it is given: nothing here is imported before there is one.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import ModelError, UnsupportedError, UserError
from mgx_mlir.importer import element_types, loading

# The newest with operators for attention, rotations and norms, which kernels are made for whole.
OPSET = 23

# The key of a node's metadata in which the exporter writes the lines of Python that it is from.
_LINES = "pkg.torch.onnx.stack_trace"
_FAILED = "translating node"


def is_program(model: Any) -> bool:
    """Whether a model is a torch.export.ExportedProgram or a torch.onnx.ONNXProgram."""
    kind = type(model)
    named = kind.__name__ in ("ExportedProgram", "ONNXProgram")
    return named and kind.__module__.split(".")[0] == "torch"


def source_of(program: Any) -> loading.Source:
    """The model of a program of torch, on its tensors' memory.

    Raises UnsupportedError naming the node that torch cannot export, and UserError without
    the package onnxscript.
    """
    if type(program).__name__ == "ExportedProgram":
        program = to_onnx(program)
    return _source(program.model)


def to_onnx(exported: Any, opset: int = OPSET) -> Any:
    """The torch.onnx.ONNXProgram of an ExportedProgram. Raises as `source_of`."""
    import torch

    _expect_onnxscript()
    with quiet():
        try:
            return torch.onnx.export(
                exported, dynamo=True, opset_version=opset, verbose=False, optimize=True
            )
        except Exception as error:  # of the exporter, of many kinds
            raise UnsupportedError(f"torch cannot export it to ONNX: {reason(error)}") from error


def _expect_onnxscript() -> None:
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError(
            "torch exports to ONNX with the package onnxscript: pip install onnxscript"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch's exporter says to everybody about itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def reason(error: BaseException) -> str:
    """One line of an error of torch: the node, where one is named, and the first cause."""
    node, first = "", error
    while True:
        for line in str(first).splitlines():
            if _FAILED in line and "%" in line and not node:
                node = line[line.index("%") + 1 :].split()[0].split(":")[0].rstrip(".,")
        following = first.__cause__ or first.__context__
        if following is None or following is first:
            break
        first = following
    lines = [line.strip() for line in str(first).splitlines() if line.strip()]
    said = lines[0] if lines else type(first).__name__
    return f"node '{node}': {said[:300]}" if node else said[:300]


def _source(model: Any) -> loading.Source:
    """The model of an onnx_ir.Model. Large weights are no part of what becomes a protobuf."""
    import onnx_ir

    graph = model.graph
    weights = {}
    taken = []
    for name, value in list(graph.initializers.items()):
        weight = _weight(name, value.const_value)
        if weight is None:
            continue
        weights[name] = weight
        taken.append(value)
    given = list(graph.inputs)
    try:
        for value in taken:
            del graph.initializers[value.name]
            if value not in given:
                graph.inputs.append(value)
        proto = onnx_ir.to_proto(model)
    finally:
        graph.inputs[:] = given
        for value in taken:
            graph.initializers[value.name] = value
    source = loading.load(proto)
    inputs = tuple(name for name in source.inputs if name not in weights)
    weights = {**source.weights, **weights}
    name = model.graph.name or source.name
    return loading.Source(source.model, weights, inputs, name)


def _weight(name: str, tensor: Any) -> Weight | None:
    """A tensor as a weight in place; None for one that is small, or whose elements are packed."""
    if tensor is None:
        raise ModelError(f"initialiser '{name}' has no value")
    if tensor.size <= loading.SMALL_ELEMENTS:
        return None
    element = element_types.of_onnx(int(tensor.dtype))
    if element.bits < 8:
        return None
    array = tensor.numpy()
    if array.dtype != element.numpy:
        array = array.view(element.numpy)
    return Weight(name, element.numpy, tuple(array.shape), data=array)


def lines_of(model: Any) -> dict[str, str]:
    """The line of the user's Python that each node of an onnx_ir.Model is from, by its name."""
    found = {}
    for node in model.graph.all_nodes():
        lines = [line.strip() for line in node.metadata_props.get(_LINES, "").splitlines()]
        files = [line for line in lines if line.startswith("File ")]
        if node.name and files:
            found[node.name] = files[-1]
    return found


def name_apart(model: Any) -> None:
    """Gives each output of an onnx_ir.Model a value of its own, so that results keep their places.

    An output may be listed twice, or be an input or a constant.
    """
    import onnx_ir

    seen: set[int] = set()
    for number, value in enumerate(model.graph.outputs):
        if value.producer() is None or id(value) in seen:
            node = onnx_ir.node("Identity", [value])
            model.graph.append(node)
            node.outputs[0].name = f"{value.name}.{number}"
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            model.graph.outputs[number] = node.outputs[0]
        seen.add(id(value))
