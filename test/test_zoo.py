"""Families of models, any sizes by one model: no compile in the second call of any size."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import mgx_mlir
from test.dynamic_models import inputs_of
from test.zoo_models import ZOO

# The compiled parts, with the host's NonMaxSuppression between them on a CPU.
PARTS = {"detector": 2}
# On GPUs NonMaxSuppression takes given sizes, and a formula of the wave's length is too deep.
TARGETS = {"detector": ["cpu"], "wav2vec2": ["cpu"]}
CASES = [(n, t) for n in ZOO for t in TARGETS.get(n, ["cpu", "gfx942", "gfx1100"])]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), CASES)
def test_any_sizes_take_one_compile(name: str, target: str) -> None:
    make, sizes = ZOO[name]
    source = make()
    session = onnxruntime.InferenceSession(source.SerializeToString())
    model = mgx_mlir.Model(source, target, warm=None)
    for seed, known in enumerate(sizes * 2):
        given = inputs_of(source, known, seed)
        found = model.run(given)
        wanted = session.run(None, given)
        for one, other in zip(found.values(), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)
        assert model.compiled == PARTS.get(name, 1), known
