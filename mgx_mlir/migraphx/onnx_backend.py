"""MIGraphX's module `onnx_migraphx.backend`: ONNX's interface of backends, with its names.

from onnx_migraphx.backend import MIGraphXBackend    # below python -m mgx_mlir.migraphx
MIGraphXBackend.set_device("CPU")
outputs = MIGraphXBackend.prepare(model).run([x])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.base import BackendRep

from mgx_mlir.backend import TARGETS, MgxBackend
from mgx_mlir.errors import UsageError
from mgx_mlir.migraphx.parsing import parse_onnx_buffer
from mgx_mlir.migraphx.program import get_target, program


class MIGraphXBackendRep(BackendRep):
    """A program that was prepared; it is compiled already."""

    def __init__(self, prog: program) -> None:
        self._program = prog

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs. `inputs` is a sequence in the parameters' order, a mapping, or one array."""
        if kwargs:
            raise UsageError(f"run takes no option {', '.join(map(repr, kwargs))}")
        names = self._program.get_parameter_names()
        if not isinstance(inputs, Mapping):
            given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            if len(given) != len(names):
                raise UsageError(f"the program has {len(names)} inputs, and {len(given)} are given")
            inputs = dict(zip(names, given, strict=True))
        return tuple(found.numpy() for found in self._program.run(inputs))


class MIGraphXBackend(MgxBackend):
    """Runs ONNX models on the device of `set_device`; else on the one asked for, or the GPU."""

    _device: str | None = None
    _last: Any = None

    @classmethod
    def set_device(cls, device: str) -> None:
        """The device for all models from now on: 'CPU', 'GPU', or a chip such as 'gfx942'."""
        cls._device = device

    @classmethod
    def get_program(cls) -> program:
        """The program of the model that was prepared last, compiled; an empty one before."""
        if cls._last is None:
            return program()
        model, device = cls._last
        if not isinstance(model, program):
            data = model if isinstance(model, bytes) else _bytes_of(model)
            model = parse_onnx_buffer(data)
            model.compile(get_target(TARGETS.get(device, device)))
            cls._last = model, device
        return model

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether models run on the device."""
        return cls.supports_device(cls._chosen(device))

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> BackendRep:
        """A model ready to run: an onnx.ModelProto, its bytes or path, a program of `migraphx`, or
        a prepared model as it is. Sizes that a model leaves open are those of each run."""
        if isinstance(model, BackendRep):
            return model
        chosen = cls._chosen(device)
        cls._last = model, chosen
        if not isinstance(model, program):
            return super().prepare(model, chosen, **kwargs)
        if not model.is_compiled():
            model.compile(get_target(TARGETS.get(chosen, chosen)))
        return MIGraphXBackendRep(model)

    @classmethod
    def run_model(
        cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Prepares and runs a model once."""
        found: tuple[Any, ...] = cls.prepare(model, device, **kwargs).run(inputs)
        return found

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str | None = None,
        outputs_info: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node once, as `MgxBackend.run_node` does."""
        return super().run_node(node, inputs, cls._chosen(device), outputs_info, **kwargs)

    @classmethod
    def _chosen(cls, device: str | None) -> str:
        return cls._device or device or "GPU"


def get_device() -> tuple[str, ...]:
    """The names of devices; a chip's name is one too."""
    return tuple(TARGETS)


def _bytes_of(model: Any) -> bytes:
    if isinstance(model, onnx.ModelProto):
        return bytes(model.SerializeToString())
    return Path(model).read_bytes()


prepare = MIGraphXBackend.prepare
run = run_model = MIGraphXBackend.run_model
run_node = MIGraphXBackend.run_node
supports_device = MIGraphXBackend.supports_device
is_compatible = MIGraphXBackend.is_compatible
