"""Wrong calls of libmgx are errors that name the argument, and change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import addressof, byref, c_int32, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir.artifact import library as parts
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.signature import canonical_json
from test.libmgx.library import Artifact, Device, LibraryError, Program, call, library, tensors

NAME = "some sizes and any"


@pytest.fixture
def artifact(files: dict[str, bytes]) -> Artifact:
    return Artifact(files[NAME])


@pytest.fixture
def program(artifact: Artifact) -> Program:
    return Program(artifact, Device("cpu:1"), trust_code=1)


def refused(name: str, *arguments: Any) -> str:
    """The words of a call's usage error."""
    with pytest.raises(LibraryError, match=r"^Usage") as said:
        call(name, *arguments)
    return said.value.text


def rows() -> Any:
    array = np.ones((3, 24), np.float32)
    found = tensors([array])
    found.held = array
    return found


def changed(**fields: Any) -> Any:
    found = rows()
    for name, value in fields.items():
        setattr(found[0], name, value)
    return found


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"rank": (1 << 32) - 1}, "has 4294967295 dimensions; tensors have at most 64"),
        ({"sizes": None}, "has no sizes"),
        ({"type": 99}, "got type 99 [3, 24]"),
        ({"memory": 4}, "has memory 4 and flags 0"),
        ({"flags": 5}, "has memory 1 and flags 5"),
    ],
)
def test_a_tensor_that_cannot_be_is_refused(
    program: Program, fields: dict[str, Any], words: str
) -> None:
    for given, taken in ((changed(**fields), rows()), (rows(), changed(**fields))):
        with pytest.raises(LibraryError, match=r"^Usage") as said:
            program.run_on(given, taken)
        assert said.value.text.endswith(words) or f"{words};" in said.value.text
    program.run_on(rows(), rows())


def test_arrays_that_are_null_are_refused(program: Program) -> None:
    one, no = c_size_t(1), c_size_t(0)
    sizes = "mgx_program_sizes", program.handle
    assert refused(*sizes, None, one, None, no, None) == "inputs is NULL"
    assert refused(*sizes, rows(), one, None, one, None) == "outputs is NULL"
    run = "mgx_run", program.handle, rows(), one
    assert refused(*run, None, one, None) == "outputs is NULL"
    options = byref(parts.made(parts.RunOptions, event_count=3))
    assert refused(*run, rows(), one, options) == "events is NULL"


def test_tensors_beyond_those_of_the_program_are_not_looked_at(program: Program) -> None:
    given = tensors([np.ones((3, 24), np.float32)] * 2)
    given[1].sizes = None
    with pytest.raises(LibraryError, match=r"^Usage: the program has 1 inputs; got 2"):
        program.run_on(given, rows())


def test_memory_of_no_bytes_overlaps_nothing() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 20]>
        g (float[n] x, float[4] w) => (float[n] y, float[4] z) { y = Neg (x) z = Neg (w) }""")
    program = mgx_mlir.compile(model, "cpu", mode="full-dynamic")
    w = np.arange(4, dtype=np.float32)
    found = program.run({"x": w[1:1], "w": w}, {"y": w[2:2]})
    assert found["y"].size == 0 and (found["z"] == -w).all()


@pytest.mark.parametrize("bytes_wanted", [1 << 62, (1 << 63) + 1, (1 << 64) - 1])
def test_memory_that_no_machine_has_is_a_resource_error(bytes_wanted: int) -> None:
    device, data = Device("cpu"), c_void_p()
    with pytest.raises(LibraryError, match=r"^Resource: memory ran out"):
        call("mgx_device_allocate", device.handle, 0, c_uint64(bytes_wanted), byref(data))
    assert not data


def test_another_kind_of_memory_is_refused() -> None:
    device, data = Device("cpu"), c_void_p()
    wrong = refused("mgx_device_allocate", device.handle, 4, c_uint64(8), byref(data))
    assert wrong == "memory is 4; it is an mgx_memory"
    call("mgx_device_allocate", device.handle, 2, c_uint64(8), byref(data))
    assert "memory is 99" in refused("mgx_device_free", device.handle, 99, data)
    call("mgx_device_free", device.handle, 2, data)


def test_keys_that_are_null_are_refused(artifact: Artifact) -> None:
    device = Device("cpu")
    with pytest.raises(LibraryError, match=r"^Usage: trusted_keys is NULL"):
        Program(artifact, device, cache_dir=b"none", trusted_key_count=2)
    names = (c_void_p * 2)()
    options = parts.made(parts.ProgramOptions, trusted_keys=addressof(names), trusted_key_count=2)
    words = refused(
        "mgx_program_create", artifact.handle, device.handle, byref(options), byref(c_void_p())
    )
    assert words == "one of trusted_keys is NULL"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"codes": 2}, "code is NULL"),
        ({"weight_count": 2}, "weights is NULL"),
        ({"weights": (b"k", None, 3, 1, 0, None)}, "weight 'k' has 3 bytes of elements of 4"),
    ],
)
def test_parts_that_are_not_there_are_refused(fields: dict[str, Any], words: str) -> None:
    plan = canonical_json(Plan((), (), 0, (), ()).to_json())
    if "weights" in fields:
        weights = (parts.Weight * 1)(parts.Weight(*fields["weights"]))
        fields = {"weights": weights, "weight_count": 1}
    assembly = byref(parts.made(parts.Assembly, plan=plan, **fields))
    assert refused("mgx_artifact_assemble", assembly, byref(c_void_p())) == words


@pytest.fixture
def heard() -> Iterator[Callable[[Any], list[bytes]]]:
    """Has a function hear the library; its messages."""
    listening: list[Any] = []

    def listen(work: Any) -> list[bytes]:
        messages: list[bytes] = []

        def hear(_: Any, level: int, text: bytes) -> None:
            messages.append(text)
            work(function, len(messages))

        function = parts.LogFunction(hear)
        listening.append(function)
        library().mgx_log_to(function, None)
        return messages

    yield listen
    for function in listening:
        library().mgx_log_end(function, None)


def test_a_function_that_hears_may_call_the_library(artifact: Artifact, heard: Any) -> None:
    device = Device("cpu:1")

    def once_more(_: Any, count: int) -> None:
        if count == 1:
            Program(artifact, device, trust_code=1)

    messages = heard(once_more)
    Program(artifact, device, trust_code=1)
    assert len(messages) == 2


def test_a_function_that_hears_may_end_that(artifact: Artifact, heard: Any) -> None:
    messages = heard(lambda own, _: library().mgx_log_end(own, None))
    device = Device("cpu:1")
    for _ in range(2):
        Program(artifact, device, trust_code=1)
    assert len(messages) == 1


def test_no_function_hears_nothing(artifact: Artifact) -> None:
    library().mgx_log_to(None, None)
    Program(artifact, Device("cpu:1"), trust_code=1)


def test_an_error_of_nothing_has_no_call_of_hip() -> None:
    found = parts.made(parts.HipError)
    library().mgx_error_get_hip(None, byref(found))
    assert (found.name, found.call, found.kernel) == (b"", b"", b"")


def test_a_run_in_the_background_outlives_its_program(program: Program) -> None:
    given, taken, one = rows(), rows(), c_size_t(1)
    pending = c_void_p()
    call("mgx_run_async", program.handle, given, one, taken, one, None, byref(pending))
    library().mgx_program_release(program.handle)
    program.handle = c_void_p()
    call("mgx_done", pending, byref(c_int32()))
    call("mgx_wait", pending)


@pytest.mark.parametrize("threads", ["0", "x", "4097", "99999999999"])
def test_numbers_of_threads_that_no_run_has_are_refused(
    threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGX_THREADS", threads)
    words = refused("mgx_device_open", b"cpu", None, byref(c_void_p()))
    assert words == f"MGX_THREADS is '{threads}'; it takes a whole number from 1 to 4096"


STARVED = """
import resource, sys
from ctypes import byref, c_size_t, c_void_p
from test.libmgx.library import LibraryError, Program, Artifact, Device, call
from test.libmgx.test_wrong_calls import rows
program = Program(Artifact(sys.argv[1]), Device("cpu:1"), trust_code=1)
given, taken, one, pending = rows(), rows(), c_size_t(1), c_void_p()
program.run_on(given, taken)
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 20), resource.RLIM_INFINITY))
try:
    call("mgx_run_async", program.handle, given, one, taken, one, None, byref(pending))
except LibraryError as error:
    print(error)
program.run_on(given, taken)
"""


def test_a_thread_that_cannot_be_had_is_a_resource_error(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "m.mgx").write_bytes(files[NAME])
    done = subprocess.run(
        [sys.executable, "-c", STARVED, str(tmp_path / "m.mgx")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Resource: no thread can be started: "), done.stdout


STRANGER = """
import os, sys
from test.libmgx.library import Artifact, Device, LibraryError, Program
artifact, device = Artifact(sys.argv[1]), Device("cpu:1")
os.setuid(65534)
try:
    Program(artifact, device, cache_dir=b"none")
except LibraryError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
@pytest.mark.parametrize("name", ["keys", "keys/own.pem"])
def test_keys_of_another_user_are_the_caller_s_error(
    name: str, files: dict[str, bytes], tmp_path: Path
) -> None:
    model, path = tmp_path / "m.mgx", tmp_path / name
    model.write_bytes(files[NAME])
    (tmp_path / "keys").mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, str(model)], capture_output=True, text=True, check=True,
        env={**os.environ, "MGX_TRUST": str(path)},
    )  # fmt: skip
    assert done.stdout.startswith("Usage: ") and "Permission denied" in done.stdout, done.stdout
