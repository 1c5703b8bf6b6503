"""PyTorch's programs as models: ONNX in memory, whose weights stay where torch has them.

Knows torch by the objects that it is given: nothing here is imported before there is one.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from mgx_mlir.artifact.weights import Weight
from mgx_mlir.errors import ModelError, UnsupportedError, UsageError, UserError
from mgx_mlir.importer import element_types, torch_decompositions
from mgx_mlir.sizes.range import Range

# The newest, with operators for attention, rotations and norms, which kernels are made for whole;
# and one without these, for what torch cannot write by them: keys of one head for all queries.
OPSETS = (23, 20)
# That of files of torch.export.save.
SUFFIX = ".pt2"

# The key of a node's metadata in which the exporter writes the lines of Python that it is from.
_LINES = "pkg.torch.onnx.stack_trace"
_FAILED = "translating node"
_NAME = re.compile(r"[A-Za-z_]\w*")
# torch's own names of sizes.
_COUNTED = re.compile(r"s\d+")


_KINDS = ("ExportedProgram", "ONNXProgram", "Module")


class _Kinds(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return _kind(value) != ""


class TorchProgram(metaclass=_Kinds):
    """A torch.export.ExportedProgram, a torch.onnx.ONNXProgram, or a torch.nn.Module."""


def _kind(value: Any) -> str:
    for one in type(value).__mro__:
        if one.__name__ in _KINDS and one.__module__.split(".")[0] == "torch":
            return one.__name__
    return ""


def program_of(module: Any, example_inputs: Any, dynamic_shapes: Any = None) -> Any:
    """The torch.onnx.ONNXProgram of a module, called with examples of its inputs.

    `example_inputs` are arguments, or by name where it is a mapping; `dynamic_shapes` is that of
    torch.export.export, and names the dimensions of a program that is exported already. Raises
    UnsupportedError with the node that cannot be exported.
    """
    if _kind(module) == "ExportedProgram" and example_inputs is None:
        return _pure(to_onnx(module, dynamic_shapes))
    if _kind(module) != "Module":
        raise UsageError(
            f"example_inputs are for a torch.nn.Module; the model is a {type(module).__name__}"
        )
    import torch

    named = isinstance(example_inputs, Mapping)
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    args, keywords = ((), dict(example_inputs)) if named else (tuple(example_inputs), {})
    with quiet(), torch.no_grad():
        try:
            program = torch.export.export(
                module, args, keywords, dynamic_shapes=dynamic_shapes, strict=False
            )
        except Exception as error:  # of torch, of many kinds
            raise UnsupportedError(f"torch.export refuses it: {reason(error)}") from error
    return _pure(to_onnx(program, dynamic_shapes))


def _pure(program: Any) -> Any:
    """The ONNXProgram. Raises UnsupportedError where its module writes to what ONNX keeps fixed."""
    signature = program.exported_program.graph_signature
    for what, names in (("buffer", signature.buffers_to_mutate),
                        ("input", signature.user_inputs_to_mutate)):  # fmt: skip
        for node, name in names.items():
            raise UnsupportedError(
                f"node '{node}' writes to the {what} '{name}', which a program does not change: "
                "make it an input, and return the new value; torch.compile(backend='mgx') writes"
            )
    return program


def read(path: Path) -> Any:
    """The torch.export.ExportedProgram of a file, by torch's own reader. Raises ModelError."""
    try:
        import torch
    except ImportError:
        raise UserError(f"{path.name} is read by the package torch: pip install torch") from None
    with quiet(), _said("torch.export") as said:
        try:
            return _with_symbols(torch.export.load(path))
        except Exception as error:  # of torch, of many kinds
            # torch itself logs the first error, and raises another.
            first = next((record.exc_info[1] for record in said if record.exc_info), None) or error
            raise ModelError(
                f"{path.name}: torch {torch.__version__} cannot read it: {reason(first)}"
            ) from error


def _with_symbols(exported: Any) -> Any:
    """An ExportedProgram read from a file, without the ranges of formulas.

    torch reads those as if they were of symbols, and then cannot export the program.
    """
    for node in exported.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        known = mode.shape_env.var_to_range if mode is not None and mode.shape_env else {}
        for size in [size for size in known if not size.is_symbol]:
            del known[size]
    return exported


def proto_of(
    program: Any, least: int
) -> tuple[onnx.ModelProto, dict[str, Weight], dict[str, Range]]:
    """The model of a program of torch, those weights that have more than `least` elements, and
    the sizes that it is for, by the names of dimensions.

    The weights are inputs of the model, and the memory of the program's tensors. Raises
    UnsupportedError naming the node that torch cannot export, and UserError without the package
    onnxscript.
    """
    kind = _kind(program)
    if kind == "Module":
        raise UsageError(
            "a torch.nn.Module is compiled for examples of its inputs: give example_inputs=(x,)"
        )
    if kind == "ExportedProgram":
        program = _pure(to_onnx(program))
    proto, weights = _apart(program.model, least)
    rename_dims(proto, _by_place(proto))
    return proto, weights, _ranges(program.exported_program, proto)


def _ranges(exported: Any, model: onnx.ModelProto) -> dict[str, Range]:
    """The sizes that an ExportedProgram is for, by the names that its model has for dimensions.

    torch takes the sizes 0 and 1 also where it is for more than 1.
    """
    if exported is None:
        return {}
    constraints = {str(size): found for size, found in exported.range_constraints.items()}
    declared = {v.name: v.type.tensor_type.shape.dim for v in model.graph.input}
    nodes = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
    names: dict[str, str] = {}
    for name in declared.keys() & nodes.keys():
        for dim, size in zip(declared[name], getattr(nodes[name], "shape", ()), strict=True):
            if dim.dim_param and not isinstance(size, int):
                names.setdefault(str(size.node.expr), dim.dim_param)
    ranges = {}
    for size, name in names.items():
        # A formula of other sizes has the range that follows from theirs.
        follows = not size.isidentifier() and names.keys() >= set(_NAME.findall(size))
        if size in constraints and not follows:
            low, high = constraints[size].lower, constraints[size].upper
            most = int(high) if high.is_Integer else None
            if low > 2 or most is not None:
                ranges[name] = Range(int(low) if low > 2 else 1, most)
    return ranges


def _by_place(model: onnx.ModelProto) -> dict[str, str]:
    """Names for the sizes that torch only counts (s77): by the input and the axis that has it."""
    dims = [
        (dim.dim_param, re.sub(r"\W", "_", f"{value.name}_{axis}"))
        for value in model.graph.input
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
    ]
    taken, names = {name for name, _ in dims}, dict[str, str]()
    for name, place in dims:
        if _COUNTED.fullmatch(name) and place not in taken:
            names.setdefault(name, place)
    return names


def to_onnx(exported: Any, dynamic_shapes: Any = None) -> Any:
    """The torch.onnx.ONNXProgram of an ExportedProgram. Raises as `proto_of`.

    `dynamic_shapes` are those that it was exported with, whose names its dimensions get.
    """
    import torch

    _expect_onnxscript()
    _refuse_statistics(exported)
    with quiet():
        exported = torch_decompositions.divided(exported)
    # torch folds a norm of bf16 into a convolution whose weights are f32 then.
    folds = not any(
        tensor.dtype == torch.bfloat16 for tensor in exported.state_dict.values()
    ) or not any("batch_norm" in str(node.target) for node in exported.graph.nodes)
    refused: Exception | None = None
    for opset in OPSETS:
        with quiet():
            try:
                return torch.onnx.export(
                    exported,
                    dynamo=True,
                    opset_version=opset,
                    dynamic_shapes=dynamic_shapes,
                    verbose=False,
                    optimize=folds,
                )
            except Exception as error:  # of the exporter, of many kinds
                refused = refused or error
    assert refused is not None
    said = reason(refused)
    raise UnsupportedError(f"torch cannot export it to ONNX: {said}") from refused


def _refuse_statistics(exported: Any) -> None:
    """Refuses norms of a batch's own statistics, and strides: torch exports others for them."""
    for node in exported.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        kind = str(node.target)
        if "as_strided" in kind and not node.args[0].meta["val"].is_contiguous():
            raise UnsupportedError(
                f"node '{node.name}' reads memory by the strides of a tensor that is not in "
                "row-major order"
            )
        trains = "batch_norm" in kind and given.get("training")
        counts = "instance_norm" in kind and given.get("use_input_stats")
        if trains or (counts and given.get("running_mean") is not None):
            raise UnsupportedError(
                f"node '{node.name}' normalises by the statistics of its batch, as in training; "
                "call eval() on the module"
            )


def _expect_onnxscript() -> None:
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError(
            "torch exports to ONNX with the package onnxscript: pip install onnxscript"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch's exporter, and what it folds constants by, say about themselves."""
    logs = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


@contextmanager
def _said(name: str) -> Iterator[list[logging.LogRecord]]:
    """What a logger says meanwhile, to nobody else."""
    log, found = logging.getLogger(name), list[logging.LogRecord]()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler = Kept()
    before, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield found
    finally:
        log.removeHandler(handler)
        log.propagate = before


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


def _apart(model: Any, least: int) -> tuple[onnx.ModelProto, dict[str, Weight]]:
    """An onnx_ir.Model without its large weights, which become inputs, and these."""
    import onnx_ir

    graph = model.graph
    weights = {}
    taken = []
    for name, value in list(graph.initializers.items()):
        weight = _weight(name, value.const_value, least)
        if weight is not None:
            weights[name] = weight
            taken.append(value)
    given = list(graph.inputs)
    try:
        for value in taken:
            del graph.initializers[value.name]
            if value not in given:
                graph.inputs.append(value)
        return onnx_ir.to_proto(model), weights
    finally:
        graph.inputs[:] = given
        for value in taken:
            graph.initializers[value.name] = value


def _weight(name: str, tensor: Any, least: int) -> Weight | None:
    """A tensor as a weight in place; None for one that is small, or whose elements are packed."""
    if tensor is None:
        raise ModelError(f"initialiser '{name}' has no value")
    if tensor.size <= least:
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


def rename_dims(model: onnx.ModelProto, names: Mapping[str, str]) -> None:
    """Gives symbols in the shapes of a model's inputs and outputs other names, or formulas."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = _NAME.sub(
                    lambda found: names.get(found[0], found[0]), dim.dim_param
                )


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
