"""The errors that a broken kernel, or a broken image, gives."""

import subprocess
import sys

import engine
import numpy as np
import pytest

needs_clang = pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")
pytestmark = pytest.mark.skipif(
    engine.LLVM_MC is None or engine.LLD is None, reason="needs llvm-mc and ld.lld"
)

SOURCE = """
extern "C" __global__ void beyond(float* x, int at) { x[at + TX] = 1; }
extern "C" __global__ void unaligned(char* x) { __hip_atomic_fetch_add((int*)(x + 1), 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
extern __shared__ int dynamic[];
extern "C" __global__ void overrun(int* out, int at) { dynamic[at + TX] = TX; barrier(); out[TX] = dynamic[at + (TX ^ 1)]; }
extern "C" __global__ void trapped(int* x) { if (x[0]) __builtin_trap(); x[1] = 1; }
extern "C" __global__ void endless(volatile int* x) { while (x[0] == 0) ; }
extern "C" __global__ void racing(int* out) { __shared__ int s[256]; s[TX] = 0; barrier(); s[TX] = TX; out[TX] = s[TX ^ 64]; }
#ifdef __GFX12__
#define WAIT "s_wait_dscnt 0x0\\n"
#define MEET "s_barrier_signal -1\\ns_barrier_wait -1"
#else
#define WAIT "s_waitcnt lgkmcnt(0)\\n"
#define MEET "s_barrier"
#endif
#define UNWAITED(name, wait, access) extern "C" __global__ void name(int* out) { \\
  __shared__ int s[256]; \\
  uint at = (uint)(__attribute__((address_space(3))) int*)(s + TX), other = at ^ 512, x = TX; \\
  asm volatile("ds_write_b32 %1, %0\\n" WAIT MEET "\\n" access "\\n" wait MEET : "+v"(x) : "v"(at), "v"(other)); \\
  s[TX ^ 128] = TX; barrier(); out[TX] = s[TX] + x; }
UNWAITED(waited, WAIT, "ds_write_b32 %1, %0")
UNWAITED(unwaited_store, "", "ds_write_b32 %1, %0")
UNWAITED(unwaited_load, "", "ds_read_b32 %0, %1")
extern "C" __global__ void global_race(int* x) { x[0] = TX + BX; }
extern "C" __global__ void unset_lds(int* out) { __shared__ int s[64]; if (TX < 8) s[TX] = 1; barrier(); out[TX] = s[TX]; }
extern "C" __global__ __launch_bounds__(64) void small(int* x) { x[TX] = 1; }
#ifdef __GFX9__
#define RAW 0x27000
#else
#define RAW 0x31004000
#endif
extern "C" __global__ void wraps(int* x, int back) { __amdgpu_buffer_rsrc_t r = __builtin_amdgcn_make_buffer_rsrc(x, 0, 256, RAW); x[TX] = __builtin_amdgcn_raw_buffer_load_b32(r, 4 * TX - back, back, 0) + 1; }
typedef ulong __attribute__((address_space(4)))* implicit;
extern "C" __global__ void prints(int* x) { x[0] = *(int*)((implicit)__builtin_amdgcn_implicitarg_ptr())[10]; }
"""


@pytest.fixture(params=engine.CHIPS, scope="module")
def module(request):
    return engine.Module(engine.hip(SOURCE, request.param), request.param)


def fault(module, *arguments, **options):
    with pytest.raises(engine.Fault) as raised:
        module.run(*arguments, **options)
    return raised.value


@needs_clang
class TestFaults:
    def test_store_beyond_the_allocation(self, module):
        x = engine.Array(np.zeros(64, np.float32))
        found = fault(module, "beyond", 1, 64, x, 8)
        assert found.kind == "out_of_bounds"
        place = "wave 0 lane 56" if module.chip in engine.CDNA else "wave 1 lane 24"
        assert "kernel beyond" in str(found) and place in str(found)
        assert f"{x.address + 256:#x}" in str(found)
        module.run("beyond", 1, 64, x, 0)  # the same kernel goes on working

    def test_misaligned_atomic(self, module):
        assert (
            fault(module, "unaligned", 1, 1, engine.Array(np.zeros(64, np.int32))).kind
            == "misaligned"
        )

    def test_lds_overrun(self, module):
        out = engine.Array(np.zeros(64, np.int32))
        module.run("overrun", 1, 64, out, 0, lds=256)
        assert fault(module, "overrun", 1, 64, out, 1, lds=256).kind == "lds_out_of_bounds"

    def test_trap(self, module):
        x = engine.Array(np.array([1, 0], np.int32))
        assert fault(module, "trapped", 1, 1, x).kind == "trap"
        assert x.view[1] == 0

    def test_a_null_service_buffer_is_explained(self, module):
        found = fault(module, "prints", 1, 1, engine.Array(np.zeros(1, np.int32)))
        assert found.kind == "out_of_bounds" and "need a host service" in str(found)

    def test_instruction_budget(self, module):
        assert (
            fault(module, "endless", 1, 1, engine.Array(np.zeros(1, np.int32)), budget=100000).kind
            == "hang"
        )

    def test_launch_beyond_the_limits(self, module):
        x = engine.Array(np.zeros(128, np.int32))
        assert fault(module, "small", 1, 128, x).kind == "launch"
        assert fault(module, "overrun", 1, 64, x, 0, lds=1 << 20).kind == "launch"


@needs_clang
class TestStrict:
    def test_race_in_lds(self, module):
        out = engine.Array(np.zeros(256, np.int32))
        module.run("racing", 1, 256, out)
        assert fault(module, "racing", 1, 256, out, strict=True).kind == "race"

    @pytest.mark.parametrize("name", ["unwaited_store", "unwaited_load"])
    def test_a_barrier_without_a_wait_for_lds(self, module, name):
        out = engine.Array(np.zeros(256, np.int32))
        module.run(name, 1, 256, out)
        assert "without waiting for it" in str(fault(module, name, 1, 256, out, strict=True))
        module.run("waited", 1, 256, out, strict=True)

    def test_race_in_global_memory(self, module):
        assert (
            fault(
                module, "global_race", 2, 32, engine.Array(np.zeros(1, np.int32)), strict=True
            ).kind
            == "race"
        )

    def test_offsets_whose_sum_wraps(self, module):
        x = engine.Array(np.zeros(64, np.int32))
        module.run("wraps", 1, 64, x, 0, strict=True)
        module.run("wraps", 1, 64, x, 8)
        assert "only if their sum wraps" in str(fault(module, "wraps", 1, 64, x, 8, strict=True))

    def test_uninitialized_lds(self, module):
        out = engine.Array(np.zeros(64, np.int32))
        module.run("unset_lds", 1, 64, out)
        assert fault(module, "unset_lds", 1, 64, out, strict=True).kind == "uninitialized"


def bare(chip: str, body: str, wave: int = 0, more: str = "") -> bytes:
    """A kernel `k` of one pointer argument, in s[0:1] of the argument segment at s[0:1].

    more: lines of its descriptor.
    """
    cdna = chip in engine.CDNA
    wave = wave or (64 if cdna else 32)
    extra = ".amdhsa_accum_offset 32" if cdna else f".amdhsa_wavefront_size32 {int(wave == 32)}"
    return engine.assemble(
        f"""
.amdgcn_target "amdgcn-amd-amdhsa--{chip}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
s_endpgm
.size k, .-k
.rodata
.amdhsa_kernel k
 .amdhsa_next_free_vgpr 32
 .amdhsa_next_free_sgpr 32
 .amdhsa_user_sgpr_kernarg_segment_ptr 1
 .amdhsa_kernarg_size 8
 {extra}
 {more}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .wavefront_size: {wave}
    .sgpr_count: 32
    .vgpr_count: 32
    .max_flat_workgroup_size: 1024
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
""",
        chip,
        "" if cdna else f"+wavefrontsize{wave}",
    )


@pytest.mark.parametrize("chip", engine.CDNA)
def test_arguments_in_registers(chip):
    """A kernel that expects them begins 256 bytes after its entry."""
    store = "v_mov_b32 v0, 0\nv_mov_b32 v1, 7\nglobal_store_dword v0, v1, s[2:3]"
    body = f"s_endpgm\n.fill 63, 4, 0xbf800000\n{store}"
    x = engine.Array(np.zeros(1, np.int32))
    preloaded = bare(chip, body, more=".amdhsa_user_sgpr_kernarg_preload_length 2")
    engine.Module(preloaded, chip).run("k", 1, 1, x)
    assert x.view[0] == 7


WAIT_SCALAR = {"gfx1200": "s_wait_kmcnt 0", "gfx1201": "s_wait_kmcnt 0"}
WAIT_LOAD = {"gfx1200": "s_wait_loadcnt 0", "gfx1201": "s_wait_loadcnt 0"}


@pytest.mark.parametrize("chip", engine.CHIPS)
def test_scalar_load_past_the_last_argument(chip):
    """LLVM widens loads of arguments; those beyond the block that holds them fail."""
    b512 = "s_load_dwordx16" if chip in engine.CDNA or chip == "gfx1030" else "s_load_b512"
    x = engine.Array(np.zeros(1, np.int32))
    wait = WAIT_SCALAR.get(chip, "s_waitcnt lgkmcnt(0)")
    engine.Module(bare(chip, f"{b512} s[4:19], s[0:1], 0x0\n{wait}"), chip).run("k", 1, 1, x)
    beyond = engine.Module(bare(chip, f"{b512} s[4:19], s[0:1], 0x4000\n{wait}"), chip)
    assert fault(beyond, "k", 1, 1, x).kind == "out_of_bounds"


@pytest.mark.parametrize("chip", engine.CHIPS)
class TestWaits:
    def run(self, chip, scalar_wait, vector_wait, strict=True, more=0):
        load = (
            "s_load_b64 s[2:3], s[0:1], 0x0"
            if not (chip in engine.CDNA or chip == "gfx1030")
            else "s_load_dwordx2 s[2:3], s[0:1], 0x0"
        )
        b32 = "dword" if chip in engine.CDNA or chip == "gfx1030" else "b32"
        body = "\n".join(
            [
                load,
                WAIT_SCALAR.get(chip, "s_waitcnt lgkmcnt(0)") if scalar_wait else "",
                "v_mov_b32 v1, 0",
                f"global_load_{b32} v2, v1, s[2:3]",
                *[f"global_load_{b32} v3, v1, s[2:3]"] * more,
                WAIT_LOAD.get(chip, "s_waitcnt vmcnt(0)") if vector_wait else "",
                "v_lshlrev_b32 v2, 1, v2",
                f"global_store_{b32} v1, v2, s[2:3]",
            ]
        )
        x = engine.Array(np.array([21], np.int32))
        engine.Module(bare(chip, body), chip).run("k", 1, 1, x, strict=strict)
        return x.view[0]

    def test_waited_for(self, chip):
        assert self.run(chip, True, True) == 42

    def test_missing_vector_wait(self, chip):
        assert self.run(chip, True, False, strict=False) == 42
        with pytest.raises(engine.Fault, match="missing wait"):
            self.run(chip, True, False)

    def test_more_loads_than_the_counter_counts_wait_for_the_first(self, chip):
        assert self.run(chip, True, False, more=63) == 42
        with pytest.raises(engine.Fault, match="missing wait"):
            self.run(chip, True, False, more=62)

    def test_missing_scalar_wait(self, chip):
        with pytest.raises(engine.Fault, match="missing wait"):
            self.run(chip, False, True)

    def test_atomics_by_flat_addresses_are_no_race(self, chip):
        if chip == "gfx1030" or chip in engine.CDNA:
            load, add = "s_load_dwordx2 s[2:3], s[0:1], 0x0", "flat_atomic_add"
        else:
            load, add = "s_load_b64 s[2:3], s[0:1], 0x0", "flat_atomic_add_u32"
        wait = WAIT_SCALAR.get(chip, "s_waitcnt lgkmcnt(0)")
        moves = "v_mov_b32 v2, s2\nv_mov_b32 v3, s3\nv_mov_b32 v4, 1"
        body = f"{load}\n{wait}\n{moves}\n{add} v[2:3], v4"
        x = engine.Array(np.zeros(1, np.int32))
        engine.Module(bare(chip, body), chip).run("k", 1, 128, x, strict=True)
        assert x.view[0] == 128

    def test_a_jump_to_nowhere(self, chip):
        image = bare(chip, "s_mov_b64 s[4:5], 64\ns_setpc_b64 s[4:5]")
        with pytest.raises(engine.Fault, match="jump to an address without code") as raised:
            engine.Module(image, chip).run("k", 1, 1, engine.Array(np.zeros(1, np.int32)))
        assert raised.value.kind == "invalid_instruction"

    def test_unset_register_in_an_address(self, chip):
        b32 = "dword" if chip in engine.CDNA or chip == "gfx1030" else "b32"
        image = bare(chip, f"global_load_{b32} v2, v[10:11], off")
        with pytest.raises(engine.Fault, match="nobody wrote"):
            engine.Module(image, chip).run(
                "k", 1, 1, engine.Array(np.zeros(1, np.int32)), strict=True
            )


@pytest.mark.parametrize("chip", ("gfx1200", "gfx1201"))
class TestNamedBarriers:
    """Wave 0 waits at barrier 1 for wave 1, which stores first; wave 2 has no part in it."""

    def run(self, chip: str, signal: str) -> int:
        image = bare(
            chip,
            f"""
s_load_b64 s[2:3], s[0:1], 0x0
v_lshrrev_b32 v1, 5, v0
v_readfirstlane_b32 s4, v1
v_mov_b32 v2, 0
v_mov_b32 v3, 7
s_wait_kmcnt 0
s_mov_b32 m0, 0x20001
s_cmp_eq_u32 s4, 0
s_cbranch_scc0 ready
s_barrier_init m0
ready:
s_barrier_signal -1
s_barrier_wait -1
s_cmp_eq_u32 s4, 1
s_cbranch_scc1 producer
s_cmp_eq_u32 s4, 2
s_cbranch_scc1 done
s_barrier_join 1
s_barrier_signal 1
s_barrier_wait 1
global_load_b32 v4, v2, s[2:3]
s_wait_loadcnt 0
global_store_b32 v2, v4, s[2:3] offset:4
s_branch done
producer:
global_store_b32 v2, v3, s[2:3]
s_wait_storecnt 0
{signal}
done:
""",
        )
        x = engine.Array(np.zeros(2, np.int32))
        engine.Module(image, chip).run("k", 1, 96, x, strict=True)
        return int(x.view[1])

    def test_members_wait_for_each_other(self, chip):
        assert self.run(chip, "s_barrier_signal 1") == 7

    def test_members_are_counted(self, chip):
        with pytest.raises(engine.Fault, match="not all of its waves reach this barrier"):
            self.run(chip, "")

    def test_a_number_without_barrier_is_a_fault(self, chip):
        with pytest.raises(engine.Fault, match="there is no barrier of this number"):
            self.run(chip, "s_barrier_signal 20")


@pytest.mark.parametrize("chip", ("gfx1200", "gfx1201"))
class TestBlocksOfRegisters:
    def run(self, chip: str, use: str) -> None:
        body = f"""
s_load_b64 s[2:3], s[0:1], 0x0
v_mov_b32 v2, 0
v_mov_b32 v9, 5
s_mov_b32 m0, 5
s_wait_kmcnt 0
v_mov_b32 v0, s2
v_mov_b32 v1, s3
global_load_block v[8:39], v[0:1], off
{use}
s_wait_loadcnt 0
global_store_b32 v2, v10, s[2:3]
"""
        x = engine.Array(np.ones(8, np.int32))
        engine.Module(bare(chip, body), chip).run("k", 1, 1, x, strict=True)

    def test_a_register_that_m0_leaves_out_may_be_used(self, chip):
        self.run(chip, "v_add_nc_u32 v11, v9, v9")

    def test_a_register_that_m0_names_is_waited_for(self, chip):
        with pytest.raises(engine.Fault, match="missing wait"):
            self.run(chip, "v_add_nc_u32 v11, v10, v10")


@pytest.mark.parametrize("chip", ("gfx1100", "gfx1151", "gfx1200", "gfx1201"))
@pytest.mark.parametrize("wave", (32, 64))
class TestMatrixOperands:
    """A WMMA has one encoding for both wave sizes; in wave64 the result takes half the registers."""

    def run(self, chip: str, wave: int, *body: str) -> np.ndarray:
        words = (8 if chip < "gfx12" else 4) if wave == 32 else (8 if chip < "gfx12" else 2)
        d = 8 if wave == 32 else 4
        text = [
            "s_load_b64 s[2:3], s[0:1], 0x0",
            WAIT_SCALAR.get(chip, "s_waitcnt lgkmcnt(0)"),
            "v_lshlrev_b32 v0, 2, v0",
            f"v_wmma_f32_16x16x16_f16 v[16:{15 + d}], v[1:{words}], v[1:{words}], 0",
            *body,
        ]
        x = engine.Array(np.ones(wave, np.float32))
        image = bare(
            chip,
            "\n".join(f"v_mov_b32 v{n}, 0" for n in range(1, 9)) + "\n" + "\n".join(text),
            wave,
        )
        engine.Module(image, chip).run("k", 1, wave, x, strict=True)
        return x.view.copy()

    def test_the_last_result_register_is_written(self, chip, wave):
        last = 23 if wave == 32 else 19
        assert not self.run(chip, wave, f"global_store_b32 v0, v{last}, s[2:3]").any()

    def test_the_register_behind_is_not(self, chip, wave):
        behind = 24 if wave == 32 else 20
        with pytest.raises(engine.Fault, match="nobody wrote"):
            self.run(chip, wave, f"global_store_b32 v0, v{behind}, s[2:3]")


@needs_clang
class TestLoader:
    def test_other_chip_is_named(self):
        with pytest.raises(engine.LoadError, match="gfx942"):
            engine.Module(engine.hip(SOURCE, "gfx942"), "gfx1100")

    def test_unknown_instruction_is_named(self):
        with pytest.raises(
            engine.LoadError,
            match=r"kernel k: instruction s_rfe_b64 is not implemented at offset 0",
        ):
            engine.Module(bare("gfx942", "s_rfe_b64 s[2:3]"), "gfx942")

    def test_damaged_images_never_crash(self):
        # In a process of its own: a crash is a failure, not the end of the tests.
        program = """
import random, sys, engine
image = engine.hip(sys.argv[1], "gfx942")
generator = random.Random(1)
for round in range(400):
    damaged = bytearray(image)
    for _ in range(generator.choice((1, 4, 32))):
        damaged[generator.randrange(len(damaged)) if round & 1 else generator.randrange(min(len(damaged), 2048))] = generator.randrange(256)
    if round % 5 == 0:
        damaged = damaged[:generator.randrange(len(damaged))]
    try:
        engine.Module(bytes(damaged), "gfx942").unload()
    except engine.LoadError:
        pass
"""
        done = subprocess.run(
            [sys.executable, "-c", program, SOURCE],
            cwd=__file__.rsplit("/", 1)[0],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
