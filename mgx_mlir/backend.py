"""The interface that the ONNX ecosystem shares: onnx.backend.base, on this compiler.

    import mgx_mlir.backend as backend
    prepared = backend.prepare(model, "CPU")     # or "GPU", or a chip: "gfx942"
    outputs = prepared.run([x])

onnx.backend.test.BackendTest runs `mgx_mlir.backend.MgxBackend` as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from mgx_mlir.artifact.target import Target
from mgx_mlir.compiler import CompileOptions
from mgx_mlir.errors import DeviceError, TargetError, UsageError
from mgx_mlir.models.host.values import normal, type_of
from mgx_mlir.models.staged import Model
from mgx_mlir.settings import Settings

# The names of devices, and their targets. A chip's name is a device too.
TARGETS = {"CPU": "cpu", "GPU": "gpu"}


class MgxBackendRep(BackendRep):
    """A model that was prepared. Sizes and shape-like inputs are those of each run."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = model.inputs
        self._outputs = model.outputs
        self._tuple = namedtupledict("Outputs", self._outputs)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, also by name. `inputs` is a sequence in the model's order, or a mapping.

        Raises UsageError where their number is wrong, and what `Model.run` raises.
        """
        if kwargs:
            raise UsageError(f"run takes no option {', '.join(map(repr, kwargs))}")
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        if not isinstance(inputs, Mapping):
            if len(inputs) > len(self._inputs):
                raise UsageError(
                    f"the model has {len(self._inputs)} inputs, and {len(inputs)} are given"
                )
            inputs = dict(zip(self._inputs, inputs, strict=False))
        found = self._model.run(inputs)
        return self._tuple(*(found[name] for name in self._outputs))


class MgxBackend(Backend):
    """Compiles ONNX models for the CPU, and for the GPU where there is one."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> MgxBackendRep:
        """A model ready to run: an onnx.ModelProto, or its bytes or path.

        `options` (CompileOptions) and `settings` (Settings) may be given by name. Compiles
        when sizes are known: on the first run. Raises UsageError for another device.
        """
        options: CompileOptions | None = kwargs.pop("options", None)
        settings: Settings | None = kwargs.pop("settings", None)
        target = _target(device)
        return MgxBackendRep(Model(model, target, options, settings=settings))

    @classmethod
    def run_model(
        cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Prepares and runs a model once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node once. `inputs` are in the node's order, or by name.

        `opset_version` is that of its definition, by default the newest.

        `outputs_info` gives element type and shape of each output, where onnx's inference
        does not find the type.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        if not isinstance(inputs, Mapping):
            if len(inputs) != len(names):
                raise UsageError(f"the node has {len(names)} inputs, and {len(inputs)} are given")
            inputs = dict(zip(names, inputs, strict=True))
        given = [_info(n, inputs[n]) for n in dict.fromkeys(names)]
        results = [onnx.ValueInfoProto(name=n) for n in node.output if n]
        for value, (dtype, shape) in zip(results, outputs_info or (), strict=False):
            number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            value.CopyFrom(helper.make_tensor_value_info(value.name, number, shape))
        graph = helper.make_graph([node], node.name or node.op_type, given, results)
        opsets = [helper.make_opsetid(node.domain, version)]
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), inputs, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models can run there: 'CPU' always, 'GPU' or a chip where HIP has such a one."""
        if device == "CPU":
            return True
        from mgx_mlir.loader import hip_device

        try:
            target = _target(device.partition(":")[0])
            hip_device(
                target if target == "gpu" else Target.get(target), Settings.from_environment()
            )
        except (DeviceError, ImportError, TargetError, UsageError):
            return False
        return True


def _target(device: str) -> str:
    if device in TARGETS:
        return TARGETS[device]
    try:
        return Target.get(device).name
    except TargetError:
        raise UsageError(
            f"there is no device '{device}'; use {', '.join(TARGETS)} or a chip, such as gfx942"
        ) from None


def _info(name: str, value: Any) -> onnx.ValueInfoProto:
    value = normal(value)
    type_ = type_of(value)
    if isinstance(value, np.ndarray):
        type_ = helper.make_tensor_type_proto(type_.tensor_type.elem_type, value.shape)
    return onnx.ValueInfoProto(name=name, type=type_)


prepare = MgxBackend.prepare
run_model = MgxBackend.run_model
run_node = MgxBackend.run_node
supports_device = MgxBackend.supports_device
is_compatible = MgxBackend.is_compatible
