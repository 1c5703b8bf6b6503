"""The emulated devices of these tests. Their library is part of the native build."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from mgx_mlir import emulator
from mgx_mlir.runtime.hip.library import open_library

# Read at the library's first call, which is after collection.
os.environ.setdefault("MGX_EMULATED_DEVICES", "gfx942,gfx1100")
emulator.enable()
# Settled now: a build that ends meanwhile would give another library.
open_library()
emulator.devices()


@pytest.fixture(autouse=True)
def clean_device() -> Iterator[None]:
    """No injected failure outlives a test, and no memory."""
    yield
    emulator.set_failures("")
    gc.collect()
