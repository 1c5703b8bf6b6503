"""Programs whose operators are not there: compiled ones of files, and models that run in parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from mgx_mlir.models.staged import Model
from mgx_mlir.rewriting.graph import Graph


class OpaqueProgram(program):
    """A program of an artifact: it runs, and nobody sees its operators."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__()
        if artifact.parts is None:
            plan = artifact.plan
            self._inputs = {spec.name: _shape_of(spec, plan) for spec in plan.inputs}
            self._results = [_shape_of(spec, plan) for spec in plan.outputs]
            return
        model = Model(artifact)
        self._inputs = {n: _shape_of_type(n, model.input_types[n]) for n in model.inputs}
        self._results = [_shape_of_type(n, model.output_types[n]) for n in model.outputs]

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
        assert self._origin is not None
        artifact = self._artifact if fast_math else self._origin.artifact(exact=True)
        self._state.compiled = Compiled.loaded(artifact, t.name, True)

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


def _shape_of(spec: TensorSpec, plan: Plan) -> shape:
    """The shape of a plan's input or output; open dimensions have the plan's formulas."""
    if min(spec.shape, default=0) >= 0:
        return _shape(numpy_dtype(spec.dtype), spec.shape)
    known = {symbol.name: symbol for symbol in plan.dims}
    dims = [dynamic_dimension.of(text, known) for text in shape_text(plan, spec)]
    return shape(type=type_name(numpy_dtype(spec.dtype)), dyn_dims=dims)


def _shape_of_type(name: str, kind: onnx.TypeProto) -> shape:
    """The shape for a type of ONNX. Raises UsageError for strings, sequences and the like."""
    tensor = kind.tensor_type
    if not tensor.elem_type or tensor.elem_type == onnx.TensorProto.STRING:
        raise UsageError(f"'{name}' is no tensor of numbers; mgx_mlir.Model takes it")
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    return _shape(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), sizes)


def _shape(dtype: np.dtype, sizes: Sequence[Any]) -> shape:
    """The shape; a size that is no number is an open one."""
    if all(isinstance(size, int) for size in sizes):
        return shape(type=type_name(dtype), lens=sizes)
    dims = [
        dynamic_dimension(n, n) if isinstance(n, int) else dynamic_dimension(0, ENDLESS_DIM)
        for n in sizes
    ]
    return shape(type=type_name(dtype), dyn_dims=dims)
