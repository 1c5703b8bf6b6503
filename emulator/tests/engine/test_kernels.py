"""HIP C++ kernels of every chip against numpy."""

import json

import engine
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")

SOURCE = """
extern "C" __global__ void saxpy(float a, const float* x, const float* y, float* z, int n) {
  int i = GID; if (i < n) z[i] = a * x[i] + y[i];
}
extern "C" __global__ void reduce(const float* x, float* out, int n) {
  __shared__ float s[256]; int t = TX; float v = 0;
  for (int i = GID; i < n; i += GX) v += x[i];
  s[t] = v; barrier();
  for (int k = 128; k > 0; k >>= 1) { if (t < k) s[t] += s[t + k]; barrier(); }
  if (t == 0) out[BX] = s[0];
}
extern "C" __global__ void collatz(const int* x, int* out) {
  int v = x[GID], n = 0;
  while (v != 1) { v = v & 1 ? 3 * v + 1 : v / 2; ++n; }
  out[GID] = n;
}
extern "C" __global__ void histogram(int* x, const int* k) {
  __hip_atomic_fetch_add(&x[k[GID] & 15], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
extern "C" __global__ void divide(const float* x, const float* y, float* z, const double* u, double* v, const int* p, int* q) {
  int i = GID; z[i] = x[i] / y[i]; v[i] = u[i] / (double)y[i]; q[i] = p[i] / (p[i ^ 1] | 1);
}
__device__ __attribute__((noinline)) int fib(int n) {
  volatile int a[4]; a[n & 3] = n; if (n < 2) return a[n & 3]; return fib(n - 1) + fib(n - 2);
}
extern "C" __global__ void recursion(int* out) { out[GID] = fib(TX % 10); }
extern "C" __global__ void transpose(const float* a, float* b, int n) {
  __shared__ float tile[16][17];
  int x = BX * 16 + TX, y = BY * 16 + TY;
  tile[TY][TX] = a[y * n + x]; barrier();
  b[(BX * 16 + TY) * n + BY * 16 + TX] = tile[TX][TY];
}
extern "C" __global__ void matmul(const half* a, const half* b, float* c, int n) {
  __shared__ half sa[16][16], sb[16][16];
  int x = BX * 16 + TX, y = BY * 16 + TY; float sum = 0;
  for (int k = 0; k < n; k += 16) {
    sa[TY][TX] = a[y * n + k + TX]; sb[TY][TX] = b[(k + TY) * n + x]; barrier();
    for (int i = 0; i < 16; ++i) sum += (float)sa[TY][i] * (float)sb[i][TX];
    barrier();
  }
  c[y * n + x] = sum;
}
extern "C" __global__ void scan(const int* x, int* out) {
  __shared__ int s[2][128]; int t = TX, p = 0; s[0][t] = x[t]; barrier();
  for (int d = 1; d < 128; d *= 2) { s[1 - p][t] = s[p][t] + (t >= d ? s[p][t - d] : 0); p = 1 - p; barrier(); }
  out[t] = s[p][t];
}
extern "C" __global__ void shuffle(const int* x, int* out, unsigned long* votes) {
  int t = TX;
  out[t] = __builtin_amdgcn_ds_bpermute(((t & 32) | ((t + 5) & 31)) * 4, x[t]);
  out[64 + t] = __builtin_amdgcn_ds_swizzle(x[t], 0x041F);
  out[128 + t] = __builtin_amdgcn_readfirstlane(x[t]);
  out[192 + t] = __builtin_amdgcn_mov_dpp(x[t], 0xB1, 15, 15, 1);
  unsigned long v = __builtin_amdgcn_ballot_w64(x[t] > 50);
  if (t == 0) votes[0] = v;
  if (t == 32) votes[1] = v;
}
__constant__ int table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
extern "C" __global__ void lookup(int* out) { out[GID] = table[(GID * 3) & 7]; }
"""

N = 1024


@pytest.fixture(params=engine.CHIPS, scope="module")
def module(request):
    return engine.Module(engine.hip(SOURCE, request.param), request.param)


@pytest.fixture(params=[False, True], ids=["plain", "strict"])
def strict(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def zeros(n):
    return engine.Array(np.zeros(n, np.float32))


def normal(rng, dtype=np.float32, n=N):
    return engine.Array(rng.standard_normal(n).astype(dtype))


def test_guarded_elementwise(module, rng, strict):
    x, y, z = normal(rng), normal(rng), engine.Array(np.zeros(N, np.float32))
    module.run("saxpy", 4, 256, 2.5, x, y, z, 1000, strict=strict)
    expected = (2.5 * x.view.astype(np.float64) + y.view).astype(np.float32)
    expected[1000:] = 0
    assert np.array_equal(z.view, expected)


def test_reduction_through_lds(module, rng, strict):
    x, out = normal(rng), engine.Array(np.zeros(4, np.float32))
    module.run("reduce", 4, 256, x, out, N, strict=strict)
    assert np.allclose(out.view.sum(), x.view.sum(), rtol=1e-4)


def test_divergent_loop(module, strict):
    def steps(v):
        count = 0
        while v != 1:
            v, count = 3 * v + 1 if v & 1 else v // 2, count + 1
        return count

    x, out = engine.Array(np.arange(1, 257, dtype=np.int32)), engine.Array(np.zeros(256, np.int32))
    module.run("collatz", 2, 128, x, out, strict=strict)
    assert np.array_equal(out.view, [steps(i) for i in range(1, 257)])


def test_global_atomics(module, rng, strict):
    bins, keys = (
        engine.Array(np.zeros(16, np.int32)),
        engine.Array(rng.integers(0, 1000, N, dtype=np.int32)),
    )
    module.run("histogram", 4, 256, bins, keys, strict=strict)
    assert np.array_equal(bins.view, np.bincount(keys.view & 15, minlength=16))


def test_divisions_round_correctly(module, rng, strict):
    x, y, z = normal(rng), normal(rng), normal(rng)
    u, v = normal(rng, np.float64), normal(rng, np.float64)
    p, q = (
        engine.Array(rng.integers(-100000, 100000, N, dtype=np.int32)),
        engine.Array(np.zeros(N, np.int32)),
    )
    module.run("divide", 4, 256, x, y, z, u, v, p, q, strict=strict)
    divisor = (p.view[np.arange(N) ^ 1] | 1).astype(np.float64)
    assert np.array_equal(z.view, x.view / y.view)
    assert np.array_equal(v.view, u.view / y.view)
    assert np.array_equal(q.view, np.trunc(p.view / divisor).astype(np.int32))


def test_recursion_through_scratch(module, strict):
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    out = engine.Array(np.zeros(128, np.int32))
    module.run("recursion", 2, 64, out, strict=strict)
    assert np.array_equal(out.view, [fibonacci[i % 64 % 10] for i in range(128)])


def test_transpose(module, rng, strict):
    a, b = normal(rng, n=64 * 64), engine.Array(np.zeros(64 * 64, np.float32))
    module.run("transpose", (4, 4), (16, 16), a, b, 64, strict=strict)
    assert np.array_equal(b.view.reshape(64, 64), a.view.reshape(64, 64).T)


def test_tiled_product(module, rng, strict):
    a, b = normal(rng, np.float16, 32 * 32), normal(rng, np.float16, 32 * 32)
    c = engine.Array(np.zeros(32 * 32, np.float32))
    module.run("matmul", (2, 2), (16, 16), a, b, c, 32, strict=strict)
    expected = a.view.reshape(32, 32).astype(np.float64) @ b.view.reshape(32, 32).astype(np.float64)
    assert np.allclose(c.view.reshape(32, 32), expected, atol=1e-4)


def test_scan(module, rng, strict):
    x, out = (
        engine.Array(rng.integers(0, 100, 128, dtype=np.int32)),
        engine.Array(np.zeros(128, np.int32)),
    )
    module.run("scan", 1, 128, x, out, strict=strict)
    assert np.array_equal(out.view, np.cumsum(x.view))


def test_wave_intrinsics(module, rng):
    x = engine.Array(rng.integers(0, 100, 64, dtype=np.int32))
    out, votes = engine.Array(np.zeros(256, np.int32)), engine.Array(np.zeros(2, np.uint64))
    module.run("shuffle", 1, 64, x, out, votes)
    lane = np.arange(64)
    wave = 64 if module.chip in engine.CDNA else 32
    assert np.array_equal(out.view[:64], x.view[(lane & 32) | ((lane + 5) & 31)])
    assert np.array_equal(out.view[64:128], x.view[lane ^ 1])
    assert np.array_equal(out.view[128:192], x.view[lane // wave * wave])
    assert np.array_equal(out.view[192:], x.view[lane ^ 1])
    bits = [
        sum(1 << (i % wave) for i in range(start, start + wave) if x.view[i] > 50)
        for start in range(0, 64, wave)
    ]
    assert list(votes.view) == (bits if wave == 32 else [bits[0], bits[0]])


def test_global_table(module):
    out = engine.Array(np.zeros(64, np.int32))
    module.run("lookup", 1, 64, out)
    assert np.array_equal(out.view, np.array([3, 1, 4, 1, 5, 9, 2, 6])[np.arange(64) * 3 & 7])
    address, size = module.global_("table")
    assert size == 32 and address


def test_profile_counts_what_ran(module, rng):
    x, y, z = normal(rng), normal(rng), normal(rng)
    profile = json.loads(module.run("saxpy", 4, 256, 2.5, x, y, z, N, profile=True))
    waves = 1024 // (64 if module.chip in engine.CDNA else 32)
    assert profile["waves"] == waves and profile["workgroups"] == 4
    assert profile["global_loads"] == 2 * waves and profile["global_stores"] == waves
    assert profile["global_bytes_read"] == 2 * 4 * N and profile["global_bytes_written"] == 4 * N
    assert profile["modelled_ms"] > 0


PROFILED = """
extern "C" __global__ void stores(int* y, int waits) {
  __shared__ int lds[64];
  lds[TX] = 0;
  for (int i = 0; i < 100; ++i) {
    asm volatile("ds_write_b32 %0, %1" :: "v"(4 * TX), "v"(i) : "memory");
    if (waits) asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");
  }
  y[TX] = lds[63 - TX];
}
extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(64, 64))) alone(float* y) {
  __shared__ float lds[16384];  // a work-group has all of a compute unit's LDS
  float x = TX;
  for (int i = 0; i < 200; ++i) x = __builtin_fmaf(x, x, 1.0f);
  lds[TX] = x;
  barrier();
  y[TX] = lds[63 - TX];
}
extern "C" __global__ void reads(const float* x, float* y, int count, int step) {
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += x[(BX * step + i) * 64 + TX];
  if (sum == -1) y[0] = sum;
}
extern "C" __global__ void fills(float* x) { x[BX * 64 + TX] = TX; }
"""


class TestModel:
    """Modelled clocks of gfx942: 304 compute units, of which each holds a 64 KiB work-group."""

    @pytest.fixture
    def model(self):
        return engine.Module(engine.hip(PROFILED, "gfx942"), "gfx942")

    def profile(self, module, name, groups, *arguments):
        return json.loads(module.run(name, groups, 64, *arguments, profile=True))

    def test_stores_to_lds_take_their_latency(self, model):
        y = zeros(64)
        without, waiting = (self.profile(model, "stores", 1, y, waits) for waits in (0, 1))
        assert without["lds_writes"] == waiting["lds_writes"] == 101
        assert waiting["unit_clocks"] > 100 * 64
        assert without["unit_clocks"] < waiting["unit_clocks"] / 2

    @pytest.mark.parametrize(("groups", "rounds"), [(1, 1), (304, 1), (305, 2), (512, 2), (609, 3)])
    def test_rounds_of_work_groups_are_whole(self, model, groups, rounds):
        y = zeros(64)
        one = self.profile(model, "alone", 1, y)
        found = self.profile(model, "alone", groups, y)
        assert one["workgroups_per_cu"] == 1 and found["rounds"] == rounds
        assert found["unit_clocks"] == pytest.approx(rounds * one["unit_clocks"], rel=1e-3)

    def test_no_kernel_is_faster_than_memory_gives_what_it_touches(self, model):
        count, groups = 16, 1216
        x, y = zeros(count * groups * 64), zeros(64)
        size = count * groups * 64 * 4
        apart = self.profile(model, "reads", groups, x, y, count, count)
        assert apart["memory_bytes"] == apart["global_bytes_read"] == size
        assert apart["memory_clocks"] == pytest.approx(size / (304 * 8.34), rel=0.01)
        assert apart["modelled_clocks"] >= apart["memory_clocks"]
        again = self.profile(model, "reads", groups, x, y, count, 0)
        assert again["global_bytes_read"] == size and again["memory_bytes"] == size // groups
        # Each work-group gets its lines of L2: 54 bytes a clock and compute unit.
        assert again["l2_bytes"] == apart["l2_bytes"] == size
        assert again["l2_clocks"] == pytest.approx(size / (304 * 54), rel=0.01)
        assert again["modelled_clocks"] >= again["l2_clocks"]

    def test_what_a_kernel_writes_is_in_the_last_cache_for_the_next_one(self, model):
        groups = 1216
        x, y, z = zeros(groups * 64), zeros(groups * 64), zeros(64)
        size = groups * 64 * 4
        for bytes_a_clock in (8192, 304 * 8.34):
            written = self.profile(model, "fills", groups, x)
            assert written["memory_bytes"] == size
            assert written["memory_clocks"] == pytest.approx(size / 8192, rel=0.01)
            source = x if bytes_a_clock == 8192 else y
            read = self.profile(model, "reads", groups, source, z, 1, 1)
            assert read["memory_clocks"] == pytest.approx(size / bytes_a_clock, rel=0.01)


GRID = """
extern "C" __global__ void turn(int* x, int* y, int groups) {
  int items = groups * 64, i = GID;
  x[i] = i * 3;
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); __builtin_amdgcn_s_barrier();
  if (TX == 0) __builtin_amdgcn_ds_gws_barrier(groups - 1, 0);
  __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
  y[i] = x[items - 1 - i];
}
extern "C" __global__ void alone(int groups) {
  if (BX == 0) return;
  __builtin_amdgcn_s_barrier();
  if (TX == 0) __builtin_amdgcn_ds_gws_barrier(groups - 1, 0);
}
"""


@pytest.mark.parametrize("chip", ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151"))
class TestGridBarrier:
    """The code that cooperative groups' grid synchronisation compiles to."""

    def test_work_groups_see_what_others_stored(self, chip):
        module = engine.Module(engine.hip(GRID, chip), chip)
        groups = 40
        x, y = (engine.Array(np.zeros(groups * 64, np.int32)) for _ in range(2))
        for strict in (False, True):
            y.view[:] = 0
            module.run("turn", groups, 64, x, y, groups, cooperative=True, strict=strict)
            assert np.array_equal(y.view, np.arange(groups * 64)[::-1] * 3)

    def test_a_group_that_never_comes_is_a_hang(self, chip):
        module = engine.Module(engine.hip(GRID, chip), chip)
        with pytest.raises(engine.Fault, match="not all of its work-groups reach"):
            module.run("alone", 4, 64, 4, cooperative=True)

    def test_an_ordinary_launch_cannot_wait(self, chip):
        module = engine.Module(engine.hip(GRID, chip), chip)
        with pytest.raises(engine.Fault, match="not cooperative"):
            module.run("alone", 4, 64, 4)
