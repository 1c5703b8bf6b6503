"""Finalizing many kernels: once for equal ones, in processes, with a cache, and failing well."""

from __future__ import annotations

import concurrent.futures
import os
import pickle
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stored_kernels import stored

import mgx_mlir.finalizer as finalizer
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import ArtifactError, CompilerError
from mgx_mlir.finalizer import Workers, build, finalize_all, finalize_kernel, finalize_kernel_for
from mgx_mlir.finalizer.build import build_id
from mgx_mlir.finalizer.cache import Cache
from mgx_mlir.finalizer.server import Server, ServerError
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool
from test.test_layers import edges

GFX942, GFX1100 = Target.get("gfx942"), Target.get("gfx1100")


def test_kernel_becomes_a_code_object() -> None:
    code = finalize_kernel(stored().bytecode, GFX942)
    assert code.arch == "gfx942"
    assert [a.kind for a in code.launches[0].arguments] == ["input", "input", "output"]
    assert code.interface is not None  # of two vectors of 8 floats, and their sum
    assert [o.bytes for o in code.interface.operands] == [32, 32, 32]
    assert pickle.loads(pickle.dumps(code)) == code


def test_several_targets_at_once_give_the_same_bytes_as_one() -> None:
    found = finalize_kernel_for(stored().bytecode, [GFX942, GFX1100])
    assert found == [finalize_kernel(stored().bytecode, t) for t in (GFX942, GFX1100)]


def test_one_server_serves_several_artifacts() -> None:
    """As of a model in stages, or of several parts in onnxruntime."""
    with finalizer.server_for([GFX942]) as server:
        for op in ("add", "mul"):
            kernel = replace(stored("a", op), from_file=True)
            (found,) = finalize_all([kernel], [GFX942], Workers(2, server=server)).values()
            assert found == [finalize_kernel(kernel.bytecode, GFX942)]


def test_results_are_in_order_by_target() -> None:
    kernels = [stored("a"), stored("b", "mul"), stored("c")]
    found = finalize_all(kernels, [GFX942, GFX1100])
    assert list(found) == ["gfx942", "gfx1100"]
    for arch, codes in found.items():
        assert [code.arch for code in codes] == [arch] * 3
    assert found["gfx942"][0] == found["gfx942"][2] != found["gfx942"][1]


def test_an_interrupt_waits_for_the_kernel_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bytes] = []

    def interrupted(bytecode: bytes, *rest: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)  # the process: its first thread waits
        time.sleep(0.3)
        ended.append(bytecode)

    monkeypatch.setattr(finalizer, "timed_finalize", interrupted)
    # A process that a shell starts in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            finalize_all([stored()], [GFX942], Workers(jobs=1))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended, "a process that ends while MLIR works in a thread of it aborts"


def test_equal_kernels_are_finalized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes] = []

    def counted(bytecode: bytes, *rest: Any) -> Any:
        calls.append(bytecode)
        return finalize_kernel_for(bytecode, *rest)

    monkeypatch.setattr(finalizer, "finalize_kernel_for", counted)
    progress: list[tuple[str, int, int]] = []
    finalize_all(
        [stored(name, node=name) for name in "abcdef"],
        [GFX942],
        progress=lambda *state: progress.append(state),
    )
    assert len(calls) == 1
    assert progress == [("finalizing for gfx942", 0, 1), ("finalizing for gfx942", 1, 1)]


def test_processes_give_what_one_process_gives() -> None:
    kernels = [stored(f"k{n}", size=n) for n in range(4, 10)]
    alone = finalize_all(kernels, [GFX942, GFX1100])
    assert finalize_all(kernels, [GFX942, GFX1100], Workers(2)) == alone


def test_any_executor_will_do() -> None:
    kernels = [stored(), stored(op="mul")]
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        found = finalize_all(kernels, [GFX942], Workers(executor=executor))
    assert found == finalize_all(kernels, [GFX942])


def test_cache_spares_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [stored(), stored(op="mul")]
    first = finalize_all(kernels, [GFX942], cache=Cache(tmp_path))
    monkeypatch.setattr(finalizer, "finalize_kernel_for", None)
    cache = Cache(tmp_path)
    assert finalize_all(kernels, [GFX942], cache=cache) == first
    assert (cache.hits, cache.misses) == (2, 0)


def test_cache_tells_targets_and_builds_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finalize_all([stored()], [GFX942], cache=Cache(tmp_path))
    cache = Cache(tmp_path)
    finalize_all([stored()], [GFX1100], cache=cache)
    monkeypatch.setattr(finalizer, "build_id", lambda: "another")
    finalize_all([stored()], [GFX942], cache=cache)
    assert cache.hits == 0
    assert len(list(cache.entries())) == 3


def test_build_is_named_by_its_content() -> None:
    assert len(build_id()) == 64
    assert build_id() == build_id()


def test_build_holds_every_module_that_code_depends_on() -> None:
    known, found = edges(), set[str]()
    waiting = [name for name in known if name.startswith("codegen.")]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += known[name]
    # These hold the words of messages, and read the environment.
    found -= {"advice", "arguments", "errors", "settings", "suggest", "text", "version"}
    parts = {part.removesuffix(".py") for part in build._PARTS}
    assert {name.partition(".")[0] for name in found} <= parts


def test_damaged_bytecode_is_named() -> None:
    broken = replace(stored("k7"), bytecode=b"ML\xefR nonsense")
    with pytest.raises(ArtifactError, match=r"kernel k7 \(ONNX nodes Add_0\).*cannot be read"):
        finalize_all([broken], [GFX942])


def test_failure_names_kernel_nodes_target_and_reproducer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mgx_mlir.codegen.gpu.builders.passes as passes

    monkeypatch.setattr(passes, "expand_pass", lambda wide: "convert-nothing{")
    monkeypatch.setattr(passes, "run_passes", _failing)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kernel = stored("k3_add", node="encoder/Add_17")
    with pytest.raises(CompilerError) as caught:
        finalize_all([kernel], [GFX942])
    message = str(caught.value)
    assert "kernel k3_add (ONNX nodes encoder/Add_17) for gfx942: pass 'x' failed" in message
    command = shlex.split(message.rpartition("reproduce with: ")[2])
    monkeypatch.undo()
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr  # the fault was ours
    assert "gfx942: " in done.stdout


def _failing(*_: Any) -> None:
    raise CompilerError("pass 'x' failed: on purpose")


# Workers -----------------------------------------------------------------------------------


def test_pool_runs_functions_and_passes_exceptions_on() -> None:
    with WorkerPool(2, 60) as pool:
        assert list(pool.map(divmod, [7, 8], [2, 3])) == [(3, 1), (2, 2)]
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()


def test_call_that_takes_too_long_fails_alone() -> None:
    with WorkerPool(1, 1.5) as pool:
        slow = pool.submit(time.sleep, 60)
        fast = pool.submit(abs, -1)
        with pytest.raises(WorkerError, match=r"more than 1\.5 seconds"):
            slow.result()
        assert fast.result() == 1


def test_process_that_dies_fails_its_call_alone() -> None:
    with WorkerPool(1, 60) as pool:
        dead = pool.submit(os._exit, 3)
        alive = pool.submit(abs, -1)
        with pytest.raises(WorkerError, match="exit status 3"):
            dead.result()
        assert alive.result() == 1


def test_printing_in_a_worker_does_no_harm() -> None:
    with WorkerPool(1, 60) as pool:
        assert pool.submit(print, "hello").result() is None
        assert pool.submit(os.system, "echo hello").result() == 0


def test_workers_have_what_their_server_imported() -> None:
    imported = "'wave' in __import__('sys').modules"
    with WorkerPool(2, 60, Server(["wave", "no_module_of_this_name"])) as pool:
        assert pool.submit(eval, imported).result()
    with WorkerPool(1, 60) as pool:
        assert not pool.submit(eval, imported).result()


def test_pool_leaves_no_process_behind() -> None:
    with WorkerPool(2, 60) as pool:
        workers = {pool.submit(os.getpid).result(), pool.submit(os.getpid).result()}
        servers = {pool.submit(os.getppid).result()}
        assert all(Path(f"/proc/{number}").exists() for number in workers | servers)
    assert not any(Path(f"/proc/{number}").exists() for number in workers | servers)


def test_workers_end_with_a_server_that_is_killed() -> None:
    with WorkerPool(1, 60) as pool:
        os.kill(pool.submit(os.getppid).result(), signal.SIGKILL)
        with pytest.raises(WorkerError):
            pool.submit(time.sleep, 60).result()


def test_server_that_has_ended_says_so() -> None:
    server = Server()
    server.close()
    with pytest.raises(ServerError, match="has ended"):
        server.fork(0, 2)


def test_interrupt_ends_the_workers_at_once() -> None:
    pool = WorkerPool(1, 60)
    future = pool.submit(time.sleep, 60)
    threading.Timer(0.5, lambda: pool.shutdown(cancel_futures=True)).start()
    with pytest.raises((WorkerError, concurrent.futures.CancelledError)):
        future.result(timeout=30)


def test_in_process_work_has_a_time_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalizer, "finalize_kernel_for", lambda *_: time.sleep(5))
    with pytest.raises(CompilerError, match=r"more than 0\.2 seconds"):
        finalize_all([stored()], [GFX942], Workers(time_limit=0.2))


def test_scripts_without_a_main_guard_can_finalize(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    script = tmp_path / "script.py"
    script.write_text(
        "from stored_kernels import stored\n"
        "from mgx_mlir.finalizer import Workers, finalize_all\n"
        "from mgx_mlir.artifact.target import Target\n"
        "kernels = [stored(size=n) for n in range(3, 7)]\n"
        "print(len(finalize_all(kernels, [Target.get('gfx942')], Workers(2))['gfx942']))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "4\n", done.stderr
