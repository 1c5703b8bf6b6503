"""How the CPU's executor shares the chunks of steps between its threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from mgx_mlir.artifact.library import library


class _NativeStep(ctypes.Structure):
    """mgx_step."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("extent", ctypes.c_int64),
        ("first_argument", ctypes.c_int64),
    )


Work = Callable[[int, int], None]
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
# Both threads come to a step within this many seconds, or the test fails.
PATIENCE = 60.0
ITEMS = 12


def _run(works: list[Work], threads: int, items: int = ITEMS) -> None:
    """Runs a step of so many items for each of `works`, which are given the items of a chunk."""
    functions = [_FUNCTION(lambda _, begin, end, work=work: work(begin, end)) for work in works]
    steps = (_NativeStep * len(works))(
        *(_NativeStep(ctypes.cast(f, ctypes.c_void_p).value, items, 0) for f in functions)
    )
    table = (ctypes.c_void_p * 1)()
    assert (
        library().mgx_cpu_run(steps, ctypes.c_int64(len(works)), table, ctypes.c_int(threads)) == 0
    )


class _Step:
    """Notes the items of each thread; none goes on before all have a chunk."""

    def __init__(self, threads: int) -> None:
        self.items: dict[int, list[int]] = {}
        self._all = threading.Barrier(threads)

    def __call__(self, begin: int, end: int) -> None:
        mine = self.items.setdefault(threading.get_native_id(), [])
        if not mine:
            self._all.wait(PATIENCE)
        mine.extend(range(begin, end))


def test_a_thread_begins_each_step_with_the_same_share() -> None:
    steps = [_Step(2) for _ in range(4)]
    _run([*steps], 2)
    begins = [{thread: items[0] for thread, items in step.items.items()} for step in steps]
    assert sorted(begins[0].values()) == [0, ITEMS // 2]
    assert begins == [begins[0]] * len(steps)


def test_threads_do_each_item_once() -> None:
    steps = [_Step(3) for _ in range(3)]
    _run([*steps], 3)
    for step in steps:
        done = [item for items in step.items.values() for item in items]
        assert sorted(done) == list(range(ITEMS))


def test_a_thread_takes_what_is_left_of_another_share() -> None:
    held, others = threading.Event(), [0]

    def work(begin: int, end: int) -> None:
        if begin == 0:  # goes on when the rest is done
            assert held.wait(PATIENCE)
            return
        others[0] += end - begin
        if others[0] == ITEMS - 1:
            held.set()

    _run([work], 2)
    assert held.is_set()


def test_one_thread_does_steps_whole() -> None:
    chunks: list[tuple[int, int]] = []
    _run([lambda begin, end: chunks.append((begin, end))] * 2, 1)
    assert chunks == [(0, ITEMS)] * 2


def test_steps_of_one_item_stay_on_the_calling_thread() -> None:
    used: list[int] = []
    _run([lambda begin, end: used.append(threading.get_native_id())] * 50, 2, items=1)
    assert used == [threading.get_native_id()] * 50
