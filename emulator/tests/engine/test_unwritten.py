"""Values that nobody wrote: what registers and LDS hold, and how strict mode follows them."""

import engine
import numpy as np
import pytest
from test_faults import WAIT_SCALAR, bare

pytestmark = pytest.mark.skipif(
    engine.LLVM_MC is None or engine.LLD is None, reason="needs llvm-mc and ld.lld"
)

LEFTOVER = 0x7FFF7FFF


def old_names(chip: str) -> bool:
    return chip in engine.CDNA or chip == "gfx1030"


def kernel(chip: str, body: str) -> bytes:
    """A kernel of one wave with the address of its argument in s[2:3], and 0 in v1."""
    load = "s_load_dwordx2" if old_names(chip) else "s_load_b64"
    wait = WAIT_SCALAR.get(chip, "s_waitcnt lgkmcnt(0)")
    return bare(chip, f"{load} s[2:3], s[0:1], 0x0\n{wait}\nv_mov_b32 v1, 0\n{body}")


def store(chip: str, register: str, offset: int = 0) -> str:
    word = "dword" if old_names(chip) else "b32"
    return f"global_store_{word} v1, {register}, s[2:3] offset:{offset}"


def lanes(chip: str, mask: int) -> str:
    """Makes the lanes of a mask the active ones."""
    if chip in engine.CDNA:
        low, high = mask & 0xFFFFFFFF, mask >> 32 & 0xFFFFFFFF
        return f"s_mov_b32 exec_lo, {low:#x}\ns_mov_b32 exec_hi, {high:#x}"
    return f"s_mov_b32 exec_lo, {mask & 0xFFFFFFFF:#x}"


def all_but(chip: str, lane: int, register: str, value: str = "1.0") -> str:
    """Writes a register in all lanes but one."""
    every = (1 << 64) - 1
    return (
        f"{lanes(chip, every & ~(1 << lane))}\nv_mov_b32 {register}, {value}\n{lanes(chip, every)}"
    )


def undefined(chip: str, body: str, lane: int, register: str) -> bool:
    """Whether strict mode refuses to store a lane of a register behind `body`."""
    code = kernel(chip, f"{body}\n{lanes(chip, 1 << lane)}\n{store(chip, register)}")
    x = engine.Array(np.zeros(4, np.float32))
    threads = 64 if chip in engine.CDNA else 32
    try:
        engine.Module(code, chip).run("k", 1, threads, x, strict=True)
    except engine.Fault as fault:
        assert fault.kind == "uninitialized", fault
        return True
    return False


@pytest.mark.parametrize("chip", engine.CHIPS)
def test_registers_hold_a_nan_of_every_width(chip):
    body = f"v_mov_b32 v8, s20\n{store(chip, 'v7')}\n{store(chip, 'v8', 4)}"
    x = engine.Array(np.zeros(2, np.uint32))
    engine.Module(kernel(chip, body), chip).run("k", 1, 1, x)
    assert x.view.tolist() == [LEFTOVER] * 2
    for width in (np.float16, np.float32, np.float64):
        assert np.isnan(x.view.view(width)).all()


@pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")
def test_lds_is_filled_before_each_work_group():
    source = """extern "C" __global__ void left(int* out) { __shared__ int s[64]; if (TX < 8) s[TX] = 1; barrier(); out[GID] = s[TX]; }"""
    out = engine.Array(np.zeros(192, np.int32))
    engine.Module(engine.hip(source, "gfx942"), "gfx942").run("left", 3, 64, out)
    assert (out.view.reshape(3, 64)[:, 8:] == LEFTOVER).all()
    assert (out.view.reshape(3, 64)[:, :8] == 1).all()


# Row 5 of A, column 7 of B, and C(5, 4): the first lane and register of the element that each
# spoils, then those of others.
MFMA = "v_mfma_f32_16x16x4_f32 v[4:7], v2, v3, v[8:11]"


def mfma(spoilt: str, lane: int) -> str:
    registers = {"v2", "v3", "v8", "v9", "v10", "v11"} - {spoilt}
    whole = "\n".join(f"v_mov_b32 {register}, 1.0" for register in sorted(registers))
    return f"{whole}\n{all_but('gfx942', lane, spoilt)}\n{MFMA}"


@pytest.mark.parametrize(
    "spoilt, lane, bad, good",
    [
        ("v2", 5, [(16, "v5"), (31, "v5")], [(16, "v4"), (4, "v5")]),
        ("v2", 53, [(20, "v5")], [(20, "v6")]),
        ("v3", 7, [(7, "v4"), (23, "v5"), (55, "v7")], [(8, "v4"), (22, "v5")]),
        ("v9", 20, [(20, "v5")], [(20, "v4"), (21, "v5")]),
    ],
)
def test_a_matrix_product_is_undefined_where_a_row_a_column_or_c_is(spoilt, lane, bad, good):
    body = mfma(spoilt, lane)
    assert [undefined("gfx942", body, *place) for place in bad] == [True] * len(bad)
    assert [undefined("gfx942", body, *place) for place in good] == [False] * len(good)


@pytest.mark.parametrize(
    "chip, a, b, lane, register, other",
    [
        ("gfx1100", range(16, 24), range(24, 32), 19, "v10", (3, "v10")),
        ("gfx1201", range(16, 20), range(20, 24), 3, "v13", (3, "v12")),
    ],
)
def test_a_product_of_rdna_is_undefined_in_the_row_of_a(chip, a, b, lane, register, other):
    """Row 5 of A; zeros in B make no difference."""
    whole = [f"v_mov_b32 v{r}, 0" for r in (*range(8, 16), *a, *b) if r != a[1]]
    left, right = (f"v[{x[0]}:{x[-1]}]" for x in (a, b))
    product = f"v_wmma_f32_16x16x16_f16 v[8:15], {left}, {right}, v[8:15]"
    body = "\n".join([*whole, all_but(chip, 5, f"v{a[1]}", "0"), product])
    assert undefined(chip, body, lane, register)
    assert not undefined(chip, body, *other)


DPP = "v_mov_b32_dpp v4, v2 row_shl:1 row_mask:0xf bank_mask:0xf"
ADD = "v_mov_b32 v5, 1.0\nv_add_f32_dpp v4, v2, v5 row_shl:1 row_mask:0xf bank_mask:0xf"
SWIZZLE = "ds_swizzle_b32 v4, v2 offset:swizzle(SWAP,1)\ns_waitcnt lgkmcnt(0)"
READ = "v_readlane_b32 s4, v2, {}\nv_mov_b32 v4, s4"
LDS = "v_mbcnt_lo_u32_b32 v3, -1, 0\nv_lshlrev_b32 v3, 2, v3\n"


@pytest.mark.parametrize(
    "body, lane, other",
    [
        ("v_mov_b32 v4, 0\n" + DPP, 4, 5),
        ("v_mov_b32 v4, 0\n" + ADD, 4, 5),
        (SWIZZLE, 4, 5),
        ("v_mov_b32 v4, v2\nv_mov_b32 v6, 0\nv_swap_b32 v4, v6\nv_mov_b32 v4, v6", 5, 4),
        ("s_mov_b64 s[4:5], 0x20\nv_cndmask_b32 v4, 0, v2, s[4:5]", 5, 4),
        ("v_mul_f32 v4, 0, v2", 5, 4),
        ("v_dot2_f32_f16 v4, v2, 0, 1.0", 5, 4),
    ],
)
def test_what_nobody_wrote_moves_with_its_bits(body, lane, other):
    body = f"{all_but('gfx942', 5, 'v2')}\n{body}"
    assert undefined("gfx942", body, lane, "v4")
    assert not undefined("gfx942", body, other, "v4")


@pytest.mark.parametrize("lane", [5, 6])
def test_a_lane_that_is_read_into_a_scalar(lane):
    body = f"{all_but('gfx942', 5, 'v2')}\n{READ.format(lane)}"
    assert undefined("gfx942", body, 0, "v4") == (lane == 5)


def test_a_carry_may_take_the_place_of_an_operand():
    """The low half of a sum is of low halves; its carry, into s[4:5], is of both, as they were."""
    body = "s_mov_b32 s4, 9\nv_mov_b32 v2, 1.0\nv_mov_b32 v4, 2.0\n"
    body += "v_mad_u64_u32 v[4:5], s[4:5], v2, s4, v[4:5]"
    assert not undefined("gfx942", body, 5, "v4")
    assert undefined("gfx942", body, 5, "v5")


def test_a_select_of_what_was_written_is_defined():
    body = f"{all_but('gfx942', 5, 'v2')}\ns_mov_b64 s[4:5], 0x20\nv_cndmask_b32 v4, v2, 0, s[4:5]"
    assert not undefined("gfx942", body, 5, "v4")


@pytest.mark.parametrize("kept", [0x20, 0x10])
def test_a_branch_on_a_lane_that_nobody_wrote(kept):
    """A mask leaves the lane out, or does not."""
    body = [
        all_but("gfx942", 5, "v2"),
        "v_cmp_eq_f32 vcc, 2.0, v2",
        f"s_mov_b64 s[4:5], {kept:#x}\ns_and_b64 vcc, vcc, s[4:5]",
        "s_cbranch_vccnz over\nover:\nv_mov_b32 v4, 0",
    ]
    assert undefined("gfx942", "\n".join(body), 0, "v4") == (kept == 0x20)


ORDERS = """
extern "C" __global__ void turns(int* out, int* count) {
  if (TX % WAVE == 0) out[__hip_atomic_fetch_add(count, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)] = BX * 4 + TX / WAVE;
}
extern "C" __global__ void racing(int* out) { __shared__ volatile int s[256]; s[TX] = 0; barrier(); s[TX] = 1; out[TX] = s[TX + 64 & 255]; }
extern "C" __global__ void sums(int* out) { __shared__ int s[256]; s[TX] = TX; barrier(); out[GID] = s[TX ^ 64] + s[255 - TX]; }
"""


@pytest.fixture(scope="module")
def module():
    return engine.Module(engine.hip(ORDERS, "gfx942"), "gfx942")


@pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")
class TestOrder:
    def turns(self, module, order):
        out, count = engine.Array(np.full(24, -1, np.int32)), engine.Array(np.zeros(1, np.int32))
        module.run("turns", 6, 256, out, count, order=order)
        return out.view.tolist()

    def test_work_groups_and_waves_take_their_turns(self, module):
        assert self.turns(module, "forward") == list(range(24))
        assert self.turns(module, "reversed") == list(range(24))[::-1]

    def test_a_seed_gives_one_order(self, module):
        found = [self.turns(module, seed) for seed in (1, 1, 2)]
        assert found[0] == found[1] != found[2]
        assert [sorted(order) for order in found] == [list(range(24))] * 3
        assert list(range(24)) not in found

    def test_a_race_shows_in_another_order(self, module):
        out = engine.Array(np.zeros(256, np.int32))
        module.run("racing", 1, 256, out)
        before = out.view.copy()
        module.run("racing", 1, 256, out, order="reversed")
        assert (out.view != before).any()

    @pytest.mark.parametrize("order", ["reversed", 1, 2])
    def test_what_barriers_order_is_the_same(self, module, order):
        out = engine.Array(np.zeros(1024, np.int32))
        module.run("sums", 4, 256, out, order=order, strict=True)
        at = np.arange(256)
        assert (out.view.reshape(4, 256) == (at ^ 64) + 255 - at).all()
