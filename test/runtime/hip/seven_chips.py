"""One artifact, finalized for seven chips from the same bytes, and run on each.

A program of its own, because the emulated devices are chosen once a process:

    MGX_HIP=emulated MGX_EMULATED_DEVICES=gfx90a,gfx942,gfx950,gfx1030,gfx1100,gfx1151,gfx1201 \\
        python seven_chips.py bert|resnet [NAME=VALUE ...]
"""

from __future__ import annotations

import ast
import struct
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

import mgx_mlir  # noqa: E402
from mgx_mlir.artifact.record import Artifact  # noqa: E402
from mgx_mlir.codegen.gpu.builders.binary import disassemble  # noqa: E402
from test.onnx_models import half, random_inputs, small  # noqa: E402

# EF_AMDGPU_MACH (AMDGPUUsage), wave size, what the matrix instructions' names begin with.
CHIPS = {
    "gfx90a": (0x3F, 64, "v_mfma_f32_"),
    "gfx942": (0x4C, 64, "v_mfma_f32_"),
    "gfx950": (0x4F, 64, "v_mfma_f32_"),
    "gfx1030": (0x36, 32, ""),
    "gfx1100": (0x41, 32, "v_wmma_f32_"),
    "gfx1151": (0x4A, 32, "v_wmma_f32_"),
    "gfx1201": (0x4E, 32, "v_wmma_f32_"),
}
# For results in f16 of sums in f32, or of the matrix units' own sums.
TOLERANCE = 2e-2


def main(name: str, *changes: str) -> None:
    sizes = {key: ast.literal_eval(value) for key, _, value in (c.partition("=") for c in changes)}
    model = half(small(name, **sizes))
    data = mgx_mlir.compile_to_bytecode(model).to_bytes()
    portable = Artifact.from_bytes(data)
    artifact = mgx_mlir.finalize(portable, list(CHIPS))
    assert [k.bytecode for k in artifact.kernels] == [k.bytecode for k in portable.kernels]
    assert artifact.content_hash == portable.content_hash
    inputs = random_inputs(model)
    want = mgx_mlir.compile(portable, "cpu").run(inputs)
    for chip, (mach, wave_size, matrix) in CHIPS.items():
        codes = [code for code in artifact.code_objects[chip] if code.data]
        for code in codes:
            (flags,) = struct.unpack_from("<I", code.data, 48)
            assert flags & 0xFF == mach, (chip, hex(flags))
            assert {figures["wave_size"] for figures in code.stats.values()} == {wave_size}, chip
        text = "\n".join(map(disassemble, {code.data for code in codes}))
        used = "v_mfma_" in text or "v_wmma_" in text
        assert (matrix in text) if matrix else not used, chip
        found = mgx_mlir.compile(artifact, chip).run(inputs)
        for output, array in want.items():
            largest = float(np.abs(array.astype(np.float32)).max())
            np.testing.assert_allclose(
                found[output].astype(np.float32), array.astype(np.float32),
                rtol=TOLERANCE, atol=TOLERANCE * largest, err_msg=f"{output} on {chip}",
            )  # fmt: skip
        print(f"{chip}: {len(codes)} code objects", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
