"""Work-groups that wait for each other by counters: their order, and what is no order."""

import engine
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(engine.CLANG is None, reason="needs clang-22")

# A barrier in parts that a kernel may leave out, between writes and reads of other work-groups.
SOURCE = """
#define LOAD(p) __hip_atomic_load(p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define ADD(p) __hip_atomic_fetch_add(p, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#define RELEASE __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#define ACQUIRE __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
#define TOGETHER barrier();
#define COUNT(n) if (TX == 0) { ADD(count); while (LOAD(count) < (n)) __builtin_amdgcn_s_sleep(1); }
#define WAVE __builtin_amdgcn_wavefrontsize()
#define EACH(n) \
  if (TX % WAVE == 0) { ADD(count); while (LOAD(count) < (n)) __builtin_amdgcn_s_sleep(1); }
#define KERNEL(name, between) \\
  extern "C" __global__ void name(uint* x, uint* y, uint* count, uint groups) { \\
    x[GID] = GID + 1; \\
    between \\
    y[GID] = x[groups * DX - 1 - GID]; \\
  }
KERNEL(whole, RELEASE TOGETHER COUNT(groups) TOGETHER ACQUIRE)
KERNEL(one_acquires, RELEASE TOGETHER COUNT(groups) ACQUIRE TOGETHER)
KERNEL(by_waves, RELEASE EACH(groups * DX / WAVE) ACQUIRE)
KERNEL(unreleased, TOGETHER COUNT(groups) TOGETHER ACQUIRE)
KERNEL(unacquired, RELEASE TOGETHER COUNT(groups) TOGETHER)
KERNEL(early, RELEASE TOGETHER COUNT(groups - 1) TOGETHER ACQUIRE)
KERNEL(alone, RELEASE COUNT(groups) TOGETHER ACQUIRE)
KERNEL(none, )
"""
GROUPS = 5


@pytest.fixture(params=engine.CHIPS, scope="module")
def module(request):
    return engine.Module(engine.hip(SOURCE, request.param), request.param)


def run(module, name, order="forward", strict=True, cooperative=True, budget=0):
    x, y = (engine.Array(np.zeros(GROUPS * 256, np.uint32)) for _ in range(2))
    count = engine.Array(np.zeros(1, np.uint32))
    options = {"cooperative": cooperative, "strict": strict, "order": order, "budget": budget}
    module.run(name, GROUPS, 256, x, y, count, GROUPS, **options)
    return y.view


@pytest.mark.parametrize("order", ["forward", "reversed", 1, 2, 3])
@pytest.mark.parametrize("name", ["whole", "one_acquires", "by_waves"])
def test_a_barrier_of_counters_orders_work_groups(module, name, order):
    for strict in (False, True):
        assert (run(module, name, order, strict) == np.arange(GROUPS * 256, 0, -1)).all()


def races(module, name, order) -> bool:
    try:
        run(module, name, order)
    except engine.Fault as fault:
        assert fault.kind == "race"
        return True
    return False


@pytest.mark.parametrize("name", ["unreleased", "unacquired", "alone", "none"])
def test_what_lacks_a_part_of_it_is_a_race(module, name):
    # On RDNA, the barrier of a work-group waits for its stores.
    wanted = name != "unreleased" or module.chip in engine.CDNA
    assert [races(module, name, order) for order in ("forward", 1)] == [wanted] * 2


def test_an_early_read_is_a_race_in_some_order(module):
    assert any(races(module, "early", seed) for seed in range(8))


def test_random_orders_show_an_early_read(module):
    """Work-groups of a cooperative launch take turns within their code."""
    wanted = np.arange(GROUPS * 256, 0, -1)
    found = [run(module, "none", seed, strict=False).tolist() for seed in range(8)]
    assert found != [wanted.tolist()] * 8
    assert len(set(map(tuple, found))) > 2
