"""ONNX's own backend tests through onnxruntime's sessions with the provider.

Models are those whose parts were compiled before, for the CPU and, some, for emulated chips; some
are compiled while their session is made. Where no part compiles, there is nothing to test; what
stays outside is what `mgx check` says needs a run's values.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
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
        feeds = dict(zip(names, values, strict=False))
        types = {v.type for v in (*self.session.get_inputs(), *self.session.get_outputs())}
        if any(word in type_ for type_ in types for word in ("bfloat16", "float8")):
            return provider.run(self.session, feeds)
        return list(self.session.run(None, feeds))


class SessionBackend(Backend):
    """Parts that were compiled before."""

    target = "cpu"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> SessionRep:
        return SessionRep(cls.session(model))

    @classmethod
    def session(cls, model: onnx.ModelProto) -> Any:
        found = provider.islands_of(model, cls.target)
        if not found.islands:
            pytest.skip(f"outside: {found.outside[0] if found.outside else 'no nodes'}")
        return provider.session(context_model(found), target=cls.target)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class Gfx942Backend(SessionBackend):
    target = "gfx942"


class Gfx1100Backend(SessionBackend):
    target = "gfx1100"


class CompilingBackend(SessionBackend):
    """Parts that are compiled while the session is made."""

    @classmethod
    def session(cls, model: onnx.ModelProto) -> Any:
        before = provider.counters()["programs"]
        try:
            made = provider.session(model, cache_dir=os.environ["MGX_CACHE_DIR"])
        except Exception:
            with_cpu = ["CPUExecutionProvider"]
            try:
                onnxruntime.InferenceSession(model.SerializeToString(), providers=with_cpu)
            except Exception as error:
                pytest.skip(f"onnxruntime takes no such model: {error}")
            raise
        if provider.counters()["programs"] == before:
            pytest.skip("no part compiles")
        return made


CASES = onnx_suite.cases_for(SessionBackend, __name__)
INCLUDED = onnx_suite.included(onnx_suite.names_of(CASES))
# One in so many is in the gate, compiled in its session, on a chip.
_STEP, _COMPILING_STEP, _CHIP_STEP = 61, 10, 12


@pytest.mark.parametrize(("group", "name"), INCLUDED[::_STEP])
def test_case(group: str, name: str) -> None:
    onnx_suite.run(CASES, group, name)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), [case for i, case in enumerate(INCLUDED) if i % _STEP])
def test_other_case(group: str, name: str) -> None:
    onnx_suite.run(CASES, group, name)


COMPILING = onnx_suite.cases_for(CompilingBackend, __name__)


@pytest.mark.slow
@pytest.mark.parametrize(("group", "name"), INCLUDED[::_COMPILING_STEP])
def test_case_that_its_session_compiles(group: str, name: str) -> None:
    onnx_suite.run(COMPILING, group, name)


ON_CHIPS = [onnx_suite.cases_for(backend, __name__) for backend in (Gfx942Backend, Gfx1100Backend)]


@pytest.mark.slow
@pytest.mark.parametrize("chip", provider.CHIPS)
@pytest.mark.parametrize(("group", "name"), INCLUDED[5::_CHIP_STEP])
def test_case_on_a_chip(group: str, name: str, chip: str) -> None:
    onnx_suite.run(ON_CHIPS[provider.CHIPS.index(chip)], group, name)
