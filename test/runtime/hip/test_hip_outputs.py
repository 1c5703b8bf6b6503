"""Results in device memory: their memory serves later runs, and nobody else's."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from hip_programs import close, image, program, used_bytes

from mgx_mlir import emulator
from mgx_mlir.runtime import dlpack
from mgx_mlir.runtime.hip.library import call
from mgx_mlir.runtime.hip.outputs import OutputPool

# Events that nothing waits for.
NOBODY: list[Any] = []


def result(digit: Any, seed: int, **options: Any) -> Any:
    return digit.run({"image": image(seed)}, results="device", **options)["probabilities"]


def test_a_dead_result_s_memory_is_the_next_result_s() -> None:
    digit = program()
    first = result(digit, 0)
    second = result(digit, 1)
    assert first.address != second.address
    assert close(first.numpy(), image(0)) and close(second.numpy(), image(1))
    free, used = first.address, used_bytes()
    del first
    assert result(digit, 2).address == free
    assert used_bytes() == used


def test_runs_allocate_nothing_any_more() -> None:
    digit = program()
    result(digit, 0)
    emulator.set_failures("hipMalloc:1,hipFree:1")
    for seed in range(20):
        assert close(result(digit, seed).numpy(), image(seed))


def test_the_memory_goes_with_the_program() -> None:
    start = used_bytes()
    digit = program()
    kept, lost = result(digit, 0), result(digit, 1)
    del lost, digit
    gc.collect()
    assert close(kept.numpy(), image(0))
    del kept
    assert used_bytes() == start


def test_what_others_know_of_is_not_used_again() -> None:
    digit = program()
    found = result(digit, 0)
    address = found.address
    taken = dlpack.Imported(found.__dlpack__())
    del found
    assert result(digit, 1).address != address
    del taken


def test_a_stream_waits_for_the_last_reader() -> None:
    digit = program()
    stream = call("hipStreamCreateWithFlags", 1)

    def waits(**options: Any) -> int:
        emulator.set_failures("hipMalloc:1000000")  # counts calls by name
        assert close(result(digit, 1, **options).numpy(), image(1))
        return emulator.call_count("hipStreamWaitEvent")

    try:
        assert waits() == 0
        found = result(digit, 0, stream=stream)
        call("hipStreamSynchronize", stream)
        del found
        assert waits() > 0
    finally:
        emulator.set_failures("")
        call("hipStreamDestroy", stream)


def test_idle_memory_is_given_up_where_memory_is_short() -> None:
    pool, start = OutputPool(0), used_bytes()
    pool.take(1 << 20, "a result", NOBODY.append)
    gc.collect()
    assert used_bytes() > start
    emulator.set_failures("hipMalloc:1")
    memory = pool.take(1 << 21, "a larger result", NOBODY.append)
    assert memory.address and used_bytes() - start < 3 << 20


def test_few_results_wait_for_runs() -> None:
    pool, start = OutputPool(0), used_bytes()
    many = [pool.take(1 << 16, "a result", NOBODY.append) for _ in range(40)]
    many.clear()
    gc.collect()
    assert used_bytes() - start <= 4 << 16
    assert np.uint64(pool.take(1 << 16, "a result", NOBODY.append).address) > 0
