"""Damaged code objects and bundles: a clear error or a module, never a crash.

`make sanitize` runs this too: there every stray read is an error.
"""

import random
import struct

import engine
import pytest

pytestmark = pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")

SOURCE = """
__device__ int table[4] = {1, 2, 3, 4};
extern "C" __global__ void a(int* x, int n) { x[GID] = table[n & 3]; }
extern "C" __global__ void b(float* x, float y) { __shared__ float s[64]; s[TX] = y; barrier(); x[GID] = s[TX ^ 1]; }
"""
ROUNDS = 400
EDGES = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    (1 << 64) - 1,
)


def bundled(image: bytes) -> bytes:
    name = b"hipv4-amdgcn-amd-amdhsa--gfx942"
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 4096, len(image), len(name)) + name
    return head.ljust(4096, b"\0") + image


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes, numbers or pieces changed; headers and metadata more often than the rest."""
    out = bytearray(data)
    notes = max(data.find(b"amdhsa.kernels"), 0)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        centre = rng.choice((0, 0, notes, notes, len(out) - 1024, rng.randrange(len(out) + 1)))
        at = min(max(centre + rng.randrange(-64, 1024), 0), max(len(out) - 9, 0))
        match rng.randrange(5):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                out[at] = rng.randrange(256)
            case 2:
                width = rng.choice((1, 2, 4, 8))
                edge = rng.choice(EDGES) & ((1 << 8 * width) - 1)
                out[at : at + width] = edge.to_bytes(width, "little")
            case 3:
                del out[at : at + rng.randrange(1, 16)]
            case 4 if rng.random() < 0.2:
                del out[max(at, 16) :]
    return bytes(out)


@pytest.mark.parametrize("form", ["elf", "bundle"])
def test_damaged_images_never_crash_the_loader(form):
    image = engine.hip(SOURCE, "gfx942")
    image = bundled(image) if form == "bundle" else image
    engine.Module(image, "gfx942").unload()
    held = engine.library().engine_allocated()
    rng = random.Random(form)
    refused = 0
    for _ in range(ROUNDS):
        try:
            module = engine.Module(mutated(image, rng), "gfx942")
        except engine.LoadError as error:
            assert str(error)
            refused += 1
        else:
            module.kernels()
            module.unload()
    assert refused > ROUNDS // 20
    assert engine.library().engine_allocated() == held  # nothing leaks


@pytest.mark.parametrize("length", [0, 1, 3, 4, 16, 63, 64, 65, 200])
def test_short_images_are_refused(length):
    image = engine.hip(SOURCE, "gfx942")
    for data in (image[:length], bundled(image)[:length], b"CCOB" + bytes(length)):
        with pytest.raises(engine.LoadError):
            engine.Module(data, "gfx942")
