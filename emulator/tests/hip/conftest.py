"""The emulated devices of these tests, and kernels compiled for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mgx_mlir import emulator
from mgx_mlir.errors import UsageError

# Read at the library's first call, which is after collection.
os.environ.setdefault("MGX_EMULATED_DEVICES", "gfx942,gfx1100")

try:
    emulator.library_path()
except UsageError as error:
    pytest.skip(str(error), allow_module_level=True)
emulator.enable()

from hip import hip  # noqa: E402
from hip_support import DEVICES, HERE, compile_kernels, ok  # noqa: E402


@pytest.fixture(autouse=True)
def clean_devices() -> Iterator[None]:
    """Every test starts and ends on devices without memory, streams or faults."""
    ok(hip.hipSetDevice(0))
    hip.hipGetLastError()
    yield
    emulator.set_failures("")
    for device in emulator.devices():
        emulator.reset_device(device.ordinal)
    hip.hipSetDevice(0)
    hip.hipGetLastError()


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a source of this folder for a chip, once."""
    folder = tmp_path_factory.mktemp("kernels")

    def compiled(chip: str, source: str = "kernels.hip") -> Path:
        output = folder / f"{Path(source).stem}-{chip}.co"
        if not output.exists():
            compile_kernels(chip, HERE / source, output)
        return output

    return compiled


@pytest.fixture(params=DEVICES)
def chip(request: pytest.FixtureRequest) -> str:
    """Each chip in turn, its device being current."""
    ok(hip.hipSetDevice(DEVICES.index(request.param)))
    return str(request.param)


@pytest.fixture
def module(chip: str, image: Callable[..., Path]) -> Any:
    """The test kernels, loaded on the current device."""
    return ok(hip.hipModuleLoadData(image(chip).read_bytes()))


@pytest.fixture
def kernel(module: Any) -> Callable[[str], Any]:
    """Functions of the test kernels by name."""
    return lambda name: ok(hip.hipModuleGetFunction(module, name.encode()))


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> Any:
    """A stream of the current device: that of the chip, in tests that have one."""
    if "chip" in request.fixturenames:
        request.getfixturevalue("chip")
    return ok(hip.hipStreamCreate())
