"""Programs whose operators are not there: compiled ones of files, and models that run in parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.plan import Plan, TensorSpec
from mgx_mlir.artifact.plan_binding import shape_text
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.migraphx.compiled import Compiled
from mgx_mlir.migraphx.modes import compile_modes, nearest_mode
from mgx_mlir.migraphx.program import Origin, program, quantized, target
from mgx_mlir.migraphx.shape import ENDLESS_DIM, dynamic_dimension, shape, type_name
from mgx_mlir.migraphx.walked import WalkedModel
from mgx_mlir.models.staged import Model
from mgx_mlir.rewriting.graph import Graph
from mgx_mlir.sizes.arithmetic import Symbol


class OpaqueProgram(program):
    """A program of an artifact: it runs, and nobody sees its operators."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__()
        if artifact.parts is None:
            plan = artifact.plan
            self._inputs = {spec.name: _shape_of(spec, plan) for spec in plan.inputs}
            self._results = [_shape_of(spec, plan) for spec in plan.outputs]
            return
        self._describe(Model(artifact), artifact.options)

    def _describe(self, model: Model, options: Mapping[str, Any]) -> None:
        """Takes the shapes of the model's inputs and outputs."""
        known = _Known(options)
        self._inputs = {n: known.input(n, model.input_types[n]) for n in model.inputs}
        self._results = [known.output(n, model.output_types[n]) for n in model.outputs]

    def clone(self) -> program:
        """A copy, which is compiled for itself."""
        made = type(self).__new__(type(self))
        made.__dict__ |= self.__dict__
        made._state = replace(self._state)
        return made

    def _parameters(self) -> dict[str, shape]:
        return dict(self._inputs)

    def get_output_shapes(self) -> list[shape]:
        """The outputs, in order."""
        return list(self._results)

    def _form(self, numbers: Any) -> tuple[Any, ...]:
        """Raises UsageError, as `graph`."""
        return (self.graph(),)

    def to_py(self) -> str:
        """Raises UsageError, as `graph`."""
        self.graph()
        return ""

    def graph(self) -> Graph:
        """Raises UsageError: only the kernels are left."""
        raise UsageError("a compiled program from a file has no operators; save it uncompiled")


class LoadedProgram(OpaqueProgram):
    """A compiled program from a file."""

    def __init__(self, artifact: Artifact, name: str, copies: bool) -> None:
        super().__init__(artifact)
        self._state.compiled = Compiled.loaded(artifact, name, copies)


class PartedProgram(OpaqueProgram):
    """A parsed model, some of whose nodes the host computes."""

    def __init__(self, origin: Origin) -> None:
        """Raises UnsupportedError, which names the nodes that the host cannot compute either."""
        self._artifact = origin.artifact()
        super().__init__(self._artifact)
        self._origin = origin

    def graph(self) -> Graph:
        """Raises UsageError: some of the operators are none of mgx."""
        raise UsageError(
            "the host computes parts of this program, which can be compiled, run and saved "
            "compiled; its operators cannot be listed, changed or saved"
        )

    def compile(
        self,
        t: target,
        offload_copy: bool = True,
        fast_math: bool = True,
        exhaustive_tune: bool = False,
        compile_mode: compile_modes | int = compile_modes.balanced,
        split_sizes: Sequence[int] = (),
    ) -> None:
        """Compiles for a target, from whose memory parts take no tensors; tuning and sizes of their
        own change nothing. Raises UsageError for a mode that is none."""
        nearest_mode(compile_mode)
        self._state.compiled = self._compiled(t, not fast_math)

    def _compiled(self, t: target, exact: bool) -> Compiled:
        assert self._origin is not None
        artifact = self._origin.artifact(exact=True) if exact else self._artifact
        return Compiled.loaded(artifact, t.name, True)

    def _narrow(self, floats: str, names: Sequence[str]) -> None:
        assert self._origin is not None
        if list(names) != ["all"]:
            raise UnsupportedError("ins_names of a program that the host computes parts of")
        self._again(replace(self._origin, floats=((floats, ()),)))

    def _quantize(
        self, kind: str, calibration: Sequence[Mapping[str, Any]], operators: Collection[str]
    ) -> None:
        assert self._origin is not None
        self._again(quantized(self._origin, kind, calibration, operators))

    def _again(self, origin: Origin) -> None:
        self.__init__(origin)  # type: ignore[misc]


class LateProgram(PartedProgram):
    """A parsed model whose inputs' values decide sizes or operators: runs compile it."""

    def __init__(self, origin: Origin) -> None:
        program.__init__(self)
        self._origin = origin
        self._describe(Model(origin.source), origin.options.to_json())

    def graph(self) -> Graph:
        """Raises UsageError: its operators depend on the values of a run."""
        raise UsageError(
            "values of this program's inputs decide its operators, which can be compiled and run; "
            "they cannot be listed, changed or saved"
        )

    def _compiled(self, t: target, exact: bool) -> Compiled:
        assert self._origin is not None
        source, options = self._origin.source, self._origin.compile_options(exact)
        model = WalkedModel(source, options) if t.name == "ref" else Model(source, t.name, options)
        return Compiled(model.run, model.outputs, t.name, in_parts=True)


def _shape_of(spec: TensorSpec, plan: Plan) -> shape:
    """The shape of a plan's input or output; open dimensions have the plan's formulas."""
    if min(spec.shape, default=0) >= 0:
        return _shape(numpy_dtype(spec.dtype), spec.shape)
    known = {symbol.name: symbol for symbol in plan.dims}
    dims = [dynamic_dimension.of(text, known) for text in shape_text(plan, spec)]
    return shape(type=type_name(numpy_dtype(spec.dtype)), dyn_dims=dims)


class _Known:
    """The shapes of a model's inputs and outputs, with the bounds that it was parsed with."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._sizes = options.get("input_dims")
        named = options.get("dim_params")
        self._symbols: dict[str, Symbol] = {}
        for name, size in (named if isinstance(named, dict) else {}).items():
            self._symbols[name] = _bounded(name, size)

    def input(self, name: str, kind: onnx.TypeProto) -> shape:
        """The shape of an input, whose dimensions `output` knows then."""
        given = self._sizes.get(name) if isinstance(self._sizes, dict) else None
        dims = kind.tensor_type.shape.dim
        if isinstance(given, list) and len(given) == len(dims):
            for dim, size in zip(dims, given, strict=True):
                if dim.dim_param:
                    self._symbols.setdefault(dim.dim_param, _bounded(dim.dim_param, size))
        else:
            given = [None] * len(dims)
        return self._shape(name, kind, given)

    def output(self, name: str, kind: onnx.TypeProto) -> shape:
        """The shape of an output. Raises UsageError for strings, sequences and the like."""
        return self._shape(name, kind, [None] * len(kind.tensor_type.shape.dim))

    def _shape(self, name: str, kind: onnx.TypeProto, given: Sequence[Any]) -> shape:
        tensor = kind.tensor_type
        if not tensor.elem_type or tensor.elem_type == onnx.TensorProto.STRING:
            raise UsageError(f"'{name}' is no tensor of numbers; mgx_mlir.Model takes it")
        dims = [self._dim(d, size) for d, size in zip(tensor.shape.dim, given, strict=True)]
        return _shape(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), dims)

    def _dim(self, dim: Any, given: Any) -> int | dynamic_dimension:
        if dim.HasField("dim_value"):
            return int(dim.dim_value)
        if dim.dim_param in self._symbols or given is None:
            with suppress(UsageError):
                return dynamic_dimension.of(dim.dim_param, self._symbols)
        found = _bounded(dim.dim_param, given)
        most = ENDLESS_DIM if found.high is None else found.high
        return dynamic_dimension(found.low, most, found.optimals, found.name)


def _bounded(name: str, size: Any) -> Symbol:
    """A dimension of a size, or of those that an artifact's options give it; else of any."""
    if isinstance(size, int):
        return Symbol(name, size, size)
    if not isinstance(size, dict):
        return Symbol(name, 0)
    return Symbol(name, size["min"], size["max"], tuple(size.get("optimals", ())))


def _shape(dtype: np.dtype, dims: Sequence[int | dynamic_dimension]) -> shape:
    """The shape of sizes and dimensions with bounds."""
    if all(isinstance(size, int) for size in dims):
        return shape(type=type_name(dtype), lens=dims)  # type: ignore[arg-type]
    bounded = [dynamic_dimension(n, n) if isinstance(n, int) else n for n in dims]
    return shape(type=type_name(dtype), dyn_dims=bounded)
