"""Every model of the foundation on both emulated chips, against the host; graph on and off alike.

Convolutional networks are whole, with random weights; the others have the sizes of tests.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hip_programs import CHIPS, used_bytes

import mgx_mlir
from mgx_mlir.runtime.hip.program import HipProgram
from mgx_mlir.tools.options import random_array
from test.onnx_models import MODELS, light, light_names, small

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [*sorted(MODELS), *light_names()])
def test_models_give_what_the_host_gives(name: str) -> None:
    model = small(name) if name in MODELS else light(name, seed=0)
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), [*CHIPS, "cpu"])
    host = mgx_mlir.compile(artifact, "cpu")
    generator = np.random.default_rng(0)
    inputs = {spec.name: random_array(spec, generator) for spec in host.inputs}
    want = host.run(inputs)
    start = used_bytes()
    for chip in CHIPS:
        replayed = mgx_mlir.compile(artifact, chip)
        assert isinstance(replayed, HipProgram)
        found, plain = replayed.run(inputs), replayed.without_graph().run(inputs)
        for output, array in want.items():
            largest = np.abs(array).max()
            np.testing.assert_allclose(found[output], array, rtol=1e-3, atol=1e-4 * largest)
            np.testing.assert_array_equal(found[output], plain[output])
        del replayed
    gc.collect()
    assert used_bytes() <= start
