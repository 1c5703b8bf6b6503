"""MIGraphX's `program`: a view of one MLIR module of mgx ops."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.compiler import CompileOptions, import_model
from mgx_mlir.dialects import context, mgx
from mgx_mlir.dialects.types import dims_of
from mgx_mlir.errors import Edge, OpenError, UnsupportedError, UsageError
from mgx_mlir.importer.loading import Source
from mgx_mlir.migraphx.argument import argument
from mgx_mlir.migraphx.compiled import OUTPUT, Compiled
from mgx_mlir.migraphx.form import Numbers, form_of
from mgx_mlir.migraphx.instruction import State
from mgx_mlir.migraphx.listing import listing
from mgx_mlir.migraphx.modes import compile_modes, nearest_mode
from mgx_mlir.migraphx.module import module
from mgx_mlir.migraphx.operators import op
from mgx_mlir.migraphx.shape import shape
from mgx_mlir.migraphx.tensors import shape_of
from mgx_mlir.models.compile import compile_to_bytecode
from mgx_mlir.models.staged.rows import data_decide
from mgx_mlir.passes.narrow_floats import NarrowFloats
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.quantization import Calibration, Precision, quantize, quantize_program
from mgx_mlir.quantization.program import OPERATORS
from mgx_mlir.rewriting.graph import (
    Graph,
    main_function,
    set_signature,
    set_value_names,
    value_names,
)
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.rewriting.topology import sort_topologically
from mgx_mlir.sizes.range import Range
from mgx_mlir.text import of_verifier

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Origin:
    """The ONNX model that a program was parsed from, with the sizes of its inputs.

    `floats` are the types, and the operators if not all, that its floats were changed to since.
    """

    source: Source
    options: CompileOptions
    floats: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def graph(self) -> Graph:
        """The program anew. Raises what the importer raises."""
        graph = import_model(self.source, self.options)
        for to, only in self.floats:
            narrow = NarrowFloats(to=to, only=only)
            run_pipeline(graph.module, [narrow], PassContext(weights=graph.weights))
        return graph

    def artifact(self, exact: bool = False) -> Artifact:
        """The model as an artifact, in parts where the host computes some. Raises as `compile`."""
        return compile_to_bytecode(self.source, self.compile_options(exact))

    def compile_options(self, exact: bool) -> CompileOptions:
        """The options, with the floats that the program was changed to since."""
        floats = self.floats[-1][0] if self.floats else self.options.floats
        return replace(self.options, floats=floats, exact=exact)


@dataclass(frozen=True)
class target:
    """The machine to compile for: 'cpu', 'gpu', a chip such as 'gfx942', or 'ref' for numpy."""

    name: str


def get_target(name: str) -> target:
    """The target of that name. Raises TargetError for an unknown one."""
    if name not in ("cpu", "gpu", "ref"):
        Target.get(name)
    return target(name)


class program:
    """A program to build, compile and run.

    Built from operators (`get_main_module`), or by `parse_onnx`.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._graph = _empty() if graph is None else graph
        main = main_function(self._graph.module)
        block = main.regions[0].blocks[0]
        names = value_names(main, "arg_attrs", len(block.arguments))
        self._state = State(self._graph, names)
        self._outputs: list[str] = []
        self._origin: Origin | None = None
        self._main = module(self._state, block)
        if graph is not None:
            end = block.operations[len(block.operations) - 1]
            returned = list(end.operands)
            self._outputs = value_names(main, "res_attrs", len(returned))
            end.operation.erase()
            self._main._returned = returned

    def _narrow(self, floats: str, names: Sequence[str]) -> None:
        """Changes the program to compute in `floats`, where range and precision allow it."""
        only = () if "all" in names else tuple(sorted(names))
        for name in only:
            op(name)
        graph, origin = self.graph(), self._origin
        narrow = NarrowFloats(to=floats, only=only)
        run_pipeline(graph.module, [narrow], PassContext(weights=graph.weights))
        self.__init__(graph)  # type: ignore[misc]
        if origin is not None:
            self._origin = replace(origin, floats=(*origin.floats, (floats, only)))

    def _quantize(
        self, kind: str, calibration: Sequence[Mapping[str, Any]], operators: Collection[str]
    ) -> None:
        """Quantizes products of `operators` to 'int8' or 'fp8'."""
        graph, made = self.graph(), None
        try:
            count = quantize_program(graph, kind, samples_of(calibration), operators)
        except OpenError as error:
            made = quantized(self._model_of_parts(error), kind, calibration, operators)
            graph, count = made.graph(), 1
        if not count:
            kinds = " or ".join(sorted(operators))
            _log.warning("no %s of floats has a constant operand: none is quantized", kinds)
        self.__init__(graph)  # type: ignore[misc]
        self._origin = made

    def _model_of_parts(self, error: OpenError) -> Origin:
        """The model, where its data decide sizes, and nothing changed the program since. Raises
        the error otherwise."""
        origin = self._origin
        if origin is None or not data_decide(origin.source) or self != program(origin.graph()):
            raise error
        return origin

    def _autocast(self) -> None:
        """Changes inputs and outputs of fp8 to f32, and converts them inside."""
        self._state.compiled = None
        block = self._main._block
        with self._graph.module.context, ir.Location.unknown():
            for value in block.arguments:
                kind, uses = value.type, list(value.uses)
                if not _is_fp8(kind):
                    continue
                value.set_type(mgx.tensor_type(dims_of(kind), mgx.element_type(np.float32)))
                with ir.InsertionPoint.at_block_begin(block):
                    narrow = mgx.convert(value, ir.RankedTensorType(kind).element_type)
                for use in uses:
                    use.owner.operands[use.operand_number] = narrow
                self._main._replace_result(value, narrow)
            with ir.InsertionPoint(block):
                self._main._returned = [
                    mgx.convert(value, np.float32) if _is_fp8(value.type) else value
                    for value in self._main._results()
                ]

    def clone(self) -> program:
        """A copy; changes of one leave the other as it is. Weights and code are shared."""
        made = program(self.graph())
        made._origin, made._state.compiled = self._origin, self._state.compiled
        made._state.symbols = self._state.symbols
        return made

    def __copy__(self) -> program:
        return self.clone()

    def __deepcopy__(self, _: Any) -> program:
        return self.clone()

    def get_main_module(self) -> module:
        """The module that runs."""
        return self._main

    def create_module(self, name: str) -> module:
        """A module for the body of `if` or `loop`. It may use the main module's instructions."""
        self._state.compiled = None
        with self._graph.module.context, ir.Location.unknown():
            point = ir.InsertionPoint(self._main._block)
            holder = ir.Operation.create(mgx.IfOp.OPERATION_NAME, regions=1, ip=point)
            made = module(self._state, holder.regions[0].blocks.append(), name)
        made._holder = holder
        self._state.bodies.append(made)
        return made

    def get_parameter_names(self) -> list[str]:
        """The names of the inputs."""
        return list(self.get_parameter_shapes())

    def get_parameter_shapes(self) -> dict[str, shape]:
        """The inputs by name; with `offload_copy=False` the memory of outputs too."""
        found = self._parameters()
        if self._state.compiled is not None and not self._state.compiled.copies:
            found |= {f"{OUTPUT}{i}": s for i, s in enumerate(self.get_output_shapes())}
        return found

    def _parameters(self) -> dict[str, shape]:
        types = [value.type for value in self._main._block.arguments]
        return {n: shape_of(t) for n, t in zip(self._state.names, types, strict=True)}

    def get_output_shapes(self) -> list[shape]:
        """The outputs, in order."""
        known = self._state.known()
        return [shape_of(value.type, known) for value in self._main._results()]

    def is_compiled(self) -> bool:
        """Whether `compile` was called."""
        return self._state.compiled is not None

    @Edge("compiling")
    def compile(
        self,
        t: target,
        offload_copy: bool = True,
        fast_math: bool = True,
        exhaustive_tune: bool = False,
        compile_mode: compile_modes | int = compile_modes.balanced,
        split_sizes: Sequence[int] = (),
    ) -> None:
        """Compiles for a target. Without `offload_copy` inputs and outputs of a GPU's program are
        in its memory. `fast_math=False` keeps the model's formulas. Raises what `mgx_mlir.compile`
        raises. `exhaustive_tune` times every legal schedule on the GPU first, as `mgx tune` does,
        and keeps the results; a CPU has none. So does a `compile_mode` of 75 and more; all others
        are one here. `split_sizes` of the one open dimension get programs of their own, beside the
        one for any size; the target 'ref' takes none.
        """
        name, exact = t.name, not fast_math
        exhaustive = exhaustive_tune or nearest_mode(compile_mode) is compile_modes.max
        if split_sizes and name == "ref":
            raise UsageError("split_sizes is not for the target 'ref', which compiles nothing")
        try:
            graph = self.graph()
            if split_sizes:
                _split(graph, split_sizes)
            self._state.compiled = Compiled.of(graph, name, offload_copy, exact, exhaustive)
        except OpenError as error:
            artifact = self._model_of_parts(error).artifact(exact)
            self._state.compiled = Compiled.loaded(artifact, name, True)

    @Edge("running the program")
    def run(self, params: Mapping[str, Any]) -> list[argument]:
        """The outputs, in order. Raises UsageError where inputs are missing or do not fit."""
        return self._runnable().run(params)

    @Edge("running the program")
    def run_async(
        self, params: Mapping[str, Any], stream: int, name: str = "ihipStream_t"
    ) -> list[argument]:
        """As `run`, on the caller's HIP stream. The outputs stay on the device."""
        return self._runnable().run(params, stream=stream)

    def _runnable(self) -> Any:
        if self._state.compiled is None:
            raise UsageError("the program is not compiled; call compile(get_target(...)) first")
        return self._state.compiled

    def sort(self) -> None:
        """Orders the instructions so that each follows its operands."""
        self._state.compiled = None
        with self._graph.module.context:
            sort_topologically(self._main._block)

    def graph(self) -> Graph:
        """A copy as a whole mgx program, that compilers take. The weights are shared."""
        for body in list(self._state.bodies):
            raise UsageError(f"module '{body.name}' is no instruction's body")
        weights = WeightStore()
        weights.files = self._graph.weights.files
        with self._graph.module.context, ir.Location.unknown():
            try:
                copy = ir.Module.parse(self._finished())
            except ir.MLIRError as error:
                raise UsageError(
                    f"an instruction has no such attributes or inputs: {of_verifier(str(error))}"
                ) from error
            keys = {op.key.value for op in ops_inside(copy.operation, mgx.LiteralOp)}
        for key in sorted(keys):
            weights.add(self._graph.weights[key])
        return Graph(copy, weights, self._graph.name)

    def _finished(self) -> str:
        """The text of the module, with the end of its function."""
        block, results = self._main._block, self._main._results()
        main = main_function(self._graph.module)
        outputs = self._outputs
        if len(outputs) != len(results):
            outputs = [f"#output_{i}" for i in range(len(results))]
        with ir.InsertionPoint(block):
            end = func.ReturnOp(results)
        try:
            set_signature(main)
            set_value_names(main, "arg_attrs", self._state.names)
            set_value_names(main, "res_attrs", outputs)
            return str(self._graph.module.operation.get_asm(enable_debug_info=True))
        finally:
            end.operation.erase()

    def to_py(self) -> str:
        """The Python text that builds the program."""
        return listing(self._main)

    def print(self) -> None:
        """Prints the program's MLIR."""
        print(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, program):
            return NotImplemented
        numbers: Numbers = {}
        return self._form(numbers) == other._form(numbers)

    def _form(self, numbers: Numbers) -> tuple[Any, ...]:
        """What the program computes (see `form_of`)."""
        with self._graph.module.context:
            block, results = self._main._block, self._main._results()
            return form_of(block, self._state.names, results, self._graph.weights, numbers)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(self.graph().module)


@Edge("quantizing")
def quantize_fp16(prog: program, ins_names: Sequence[str] = ("all",)) -> None:
    """Changes a program to compute in f16; sums, statistics and what would overflow stay in f32.

    Inputs and outputs keep their types. `ins_names` are the operators that change, or "all".
    """
    prog._narrow("f16", ins_names)


@Edge("quantizing")
def quantize_bf16(prog: program, ins_names: Sequence[str] = ("all",)) -> None:
    """As `quantize_fp16`, in bf16."""
    prog._narrow("bf16", ins_names)


@Edge("quantizing")
def quantize_int8(
    prog: program,
    t: target,
    calibration: Sequence[Mapping[str, Any]] = (),
    ins_names: Collection[str] = OPERATORS,
) -> None:
    """Quantizes products with constants to int8, by the ranges of `calibration` on the CPU.

    `calibration` is a list of inputs by name; random ones without. `t` changes nothing: the
    program runs on all targets. Raises UnsupportedError for other names of operators, UsageError
    for inputs that do not fit.
    """
    others = sorted(set(ins_names) - set(OPERATORS))
    if others:
        raise UnsupportedError(f"ins_names {others}; convolution and dot are quantized")
    prog._quantize("int8", calibration, ins_names)


@Edge("quantizing")
def quantize_fp8(prog: program, t: target, calibration: Sequence[Mapping[str, Any]] = ()) -> None:
    """As `quantize_int8`, in fp8 (E4M3)."""
    prog._quantize("fp8", calibration, OPERATORS)


# The operators of ONNX that MIGraphX's products are made of.
_PRODUCTS = {"convolution": ("Conv",), "dot": ("Gemm", "MatMul")}


def quantized(
    origin: Origin,
    kind: str,
    calibration: Sequence[Mapping[str, Any]],
    operators: Collection[str],
) -> Origin:
    """The model of which the host computes parts, quantized. Raises what `quantize` raises."""
    precision = Precision(kind)
    if set(operators) != set(_PRODUCTS):
        include = tuple(name for each in sorted(operators) for name in _PRODUCTS[each])
        precision = replace(precision, include=include)
    given = Calibration(samples_of(calibration), options=origin.options.sizes_only())
    return replace(origin, source=quantize(origin.source, precision, given).source)


def samples_of(calibration: Sequence[Mapping[str, Any]]) -> list[dict[str, np.ndarray]] | None:
    """The inputs as arrays; None where there are none."""
    return [{n: np.array(a) for n, a in one.items()} for one in calibration] or None


@Edge("casting the inputs")
def autocast_fp8(prog: program) -> None:
    """Gives inputs and outputs of fp8 the type float: they are converted inside."""
    prog._autocast()


def _split(graph: Graph, sizes: Sequence[int]) -> None:
    """States the sizes of the graph's one open dimension that get programs of their own."""
    found = {dim.symbol: dim for dim in graph.open_dims()}
    if len(found) != 1:
        raise UsageError(
            f"split_sizes is for one open dimension; the program has {len(found)}: give a "
            "dynamic_dimension its optimals"
        )
    ((name, given),) = found.items()
    if outside := [size for size in sizes if size not in Range(given.low, given.high)]:
        raise UsageError(f"split_sizes {outside} are not from {given.low} to {given.high}")
    best = sorted({*sizes})
    with graph.module.context, ir.Location.unknown():
        for value in main_function(graph.module).regions[0].blocks[0].arguments:
            dims = [
                mgx.DimAttr.get(dim.name, dim.min, dim.max, best)
                if isinstance(dim, mgx.DimAttr) and dim.name == name
                else dim
                for dim in dims_of(value.type)
            ]
            value.set_type(mgx.tensor_type(dims, ir.RankedTensorType(value.type).element_type))
        set_signature(main_function(graph.module))


def _is_fp8(kind: ir.Type) -> bool:
    return "float8" in str(mgx.numpy_dtype(kind))


def _empty() -> Graph:
    with context() as made, ir.Location.unknown():
        made.dialects["func"]  # loads it
        built = ir.Module.create()
        with ir.InsertionPoint(built.body):
            func.FuncOp("main", ([], [])).add_entry_block()
    return Graph(built, WeightStore())
