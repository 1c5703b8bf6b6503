"""ONNX's own backend tests through onnxruntime's sessions with the provider.

Models are those whose parts were compiled before. Where no part compiles, there is nothing to test;
what stays outside is what `mgx check` says needs a run's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.base import Backend, BackendRep

from mgx_mlir.models.ep_context import context_model
from test import onnx_suite
from test.onnxruntime_ep import provider


class SessionRep(BackendRep):
    def __init__(self, session: Any) -> None:
        self.session = session

    def run(self, inputs: Sequence[Any], **_: Any) -> list[Any]:
        names = [given.name for given in self.session.get_inputs()]
        values = [x if isinstance(x, list | dict) else np.asarray(x) for x in inputs]
        return list(self.session.run(None, dict(zip(names, values, strict=False))))


class SessionBackend(Backend):
    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> SessionRep:
        if _has_bf16(model):
            pytest.skip("onnxruntime's Python interface takes no arrays of bf16")
        found = provider.islands_of(model)
        if not found.islands:
            pytest.skip(f"outside: {found.outside[0] if found.outside else 'no nodes'}")
        return SessionRep(provider.session(context_model(found)))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def _has_bf16(model: onnx.ModelProto) -> bool:
    values = [*model.graph.input, *model.graph.output]
    return any(v.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for v in values)


CASES = onnx_suite.cases_for(SessionBackend, __name__)
INCLUDED = onnx_suite.included(onnx_suite.names_of(CASES))
# One in so many is in the gate.
_STEP = 61


@pytest.mark.parametrize(("group", "name"), INCLUDED[::_STEP])
def test_case(group: str, name: str) -> None:
    onnx_suite.run(CASES, group, name)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), [case for i, case in enumerate(INCLUDED) if i % _STEP])
def test_other_case(group: str, name: str) -> None:
    onnx_suite.run(CASES, group, name)
