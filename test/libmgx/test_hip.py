"""libmgx on emulated GPUs: results, device memory, streams, graphs, failures."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_size_t, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import mgx_mlir
from mgx_mlir import emulator
from mgx_mlir.artifact.record import Artifact as PythonArtifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.runtime.hip.device import device_for
from mgx_mlir.runtime.hip.library import open_library
from mgx_mlir.settings import Settings
from test.fuzz import mutate
from test.fuzz.artifacts.programs import PROGRAMS, seeds
from test.libmgx.library import (
    Artifact,
    Device,
    LibraryError,
    Program,
    RunOptions,
    Tensor,
    call,
    library,
    made,
    tensors,
)
from test.libmgx.test_programs import given, same

LOG = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, ctypes.c_char_p)
QUICK = ("several kernels", "some sizes and any", "search")


def opened(chip: str) -> Device:
    """The emulated device of a chip, which Python's part of the process has too."""
    open_library("emulated", (chip,))
    number = device_for(Target.get(chip)).ordinal
    return Device(f"hip:{number}", str(emulator.library_path()))


@pytest.fixture(scope="module")
def device() -> Device:
    return opened("gfx942")


@pytest.fixture(scope="module")
def gpu_files(folder: Path) -> dict[str, bytes]:
    settings = Settings(cache_dir=folder / "cache", hip="emulated")
    return seeds(folder, "gfx942", settings, QUICK)


@pytest.fixture
def failures() -> Iterator[Callable[[bytes], None]]:
    """Makes calls of HIP fail."""
    own = ctypes.CDLL(str(emulator.library_path())).mgxEmulatorSetFailures
    yield own
    own(b"")


def check_results(data: bytes, chip: str, folder: Path, graph: int) -> None:
    path = folder / f"{chip}.mgx"
    path.write_bytes(data)
    python = PythonArtifact.open(path)
    settings = Settings(cache_dir=folder / "cache", hip="emulated")
    other = mgx_mlir.compile(python, chip, settings=settings, trust_code=True)
    program = Program(Artifact(path), opened(chip), trust_code=1, graph=graph)
    sizes = (2, 5, 2) if python.plan.dims else (1, 1)
    for seed, size in enumerate(sizes):
        inputs = given(python.plan, size, seed)
        same(program.run(inputs), {n: np.asarray(a) for n, a in other.run(inputs).items()})


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("graph", [0, -1], ids=["graph", "launches"])
def test_results_are_those_of_the_python_package(
    name: str, graph: int, gpu_files: dict[str, bytes], folder: Path
) -> None:
    check_results(gpu_files[name], "gfx942", folder, graph)


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_results_of_every_program(chip: str, folder: Path) -> None:
    settings = Settings(cache_dir=folder / "cache", hip="emulated")
    names = [name for name in PROGRAMS if name != "parts"]
    for data in seeds(folder, chip, settings, names).values():
        for graph in (0, -1):
            check_results(data, chip, folder, graph)


@pytest.fixture(scope="module")
def split(folder: Path) -> bytes:
    """A product whose k several work-groups share."""
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        m (float16[40, 2048] x, float16[2048, 48] w) => (float16[40, 48] y) { y = MatMul(x, w) }"""
    )
    return mgx_mlir.finalize(
        mgx_mlir.compile_to_bytecode(model), "gfx942",
        settings=Settings(cache_dir=folder / "cache", hip="emulated"),
    ).to_bytes()  # fmt: skip


def test_work_groups_that_share_k_count_in_memory_of_the_program(
    split: bytes, folder: Path
) -> None:
    """Runs of one program follow each other on the same counters."""
    assert b'"counters"' in split and struct.unpack_from("<HH", split, 8) == (1, 1)
    for graph in (0, -1):
        check_results(split, "gfx942", folder, graph)


@pytest.mark.parametrize(
    ("change", "kind", "error"),
    [
        ({"counters": -1}, "Artifact", "argument index is a number from 0"),
        ({"counters": 1 << 62}, "Resource", "the program needs"),
        # Such lengths, of several streams, add up to none in 64 bits.
        ({"scratch_bytes": 1 << 62}, "Resource", "the program needs 4 EiB"),
        ({"counters": 1 << 62, "scratch_bytes": (1 << 63) - 1}, "Resource", "the program needs"),
    ],
)
def test_counters_and_scratch_memory_that_no_device_has_are_refused(
    change: dict[str, int], kind: str, error: str, split: bytes, device: Device, folder: Path
) -> None:
    manifest, body = mutate.split(mutate.uncounted(split))
    for code in manifest["code_objects"]["gfx942"]:
        code["scratch_bytes"] = change.get("scratch_bytes", code["scratch_bytes"])
        for launch in code["launches"]:
            for argument in launch["arguments"]:
                argument[1] = change.get(argument[0], argument[1])
    path = folder / "damaged.mgx"
    path.write_bytes(mutate.joined(manifest, body))
    with pytest.raises(LibraryError, match=error) as caught:
        Program(Artifact(path), device, trust_code=1)
    assert caught.value.kind == kind


def test_a_device_says_what_it_is(device: Device) -> None:
    info = device.info
    assert (info.target, info.is_gpu, info.threads) == (b"gfx942", 1, 0)
    assert b"MI300X" in info.name
    assert info.memory_bytes > 1 << 36
    count = c_size_t()
    call("mgx_device_count", None, byref(count))
    assert count.value >= 1
    with pytest.raises(LibraryError, match=r"^Target: .*hip:63"):
        Device("hip:63")
    with pytest.raises(LibraryError, match=r"^Usage: .*already"):
        Device("hip:0", "/another/libamdhip64.so")


def test_tensors_of_the_device_stay_there(device: Device, gpu_files: dict[str, bytes]) -> None:
    """On a stream of the caller nothing is copied, and results follow in its order."""
    program = Program(Artifact(gpu_files["several kernels"]), device, trust_code=1)
    plan = PythonArtifact.from_bytes(gpu_files["several kernels"]).plan
    inputs = given(plan, 1, 3)
    wanted = program.run(inputs)
    stream = c_void_p()
    call("mgx_stream_create", device.handle, byref(stream))

    def allocated(size: int) -> c_void_p:
        data = c_void_p()
        call("mgx_device_allocate", device.handle, 2, c_uint64(size), byref(data))
        return data

    def copied(target: c_void_p, source: c_void_p, size: int) -> None:
        call("mgx_device_copy", device.handle, target, source, c_uint64(size), stream, c_int32(1))

    arrays = program.arrays(inputs)
    results = [np.zeros_like(wanted[name]) for name, _ in program.outputs]
    memory = [allocated(array.nbytes) for array in (*arrays, *results)]
    ours = [
        Tensor(data, t.sizes, t.rank, 0, kind, 0, t.bytes)
        for kind, data, t in zip(
            (0, 2, 2, 0), memory, (*tensors(arrays), *tensors(results)), strict=True
        )
    ]
    options = made(RunOptions, stream=stream.value, on_stream=1)
    for _ in range(3):
        for array, data in zip(arrays, memory, strict=False):
            copied(data, c_void_p(array.ctypes.data), array.nbytes)
        program.run_on((Tensor * 2)(*ours[:2]), (Tensor * 2)(*ours[2:]), options)
        for array, data in zip(results, memory[len(arrays) :], strict=True):
            copied(c_void_p(array.ctypes.data), data, array.nbytes)
        call("mgx_stream_synchronize", device.handle, stream)
        same(dict(zip(wanted, results, strict=True)), wanted)
        for array in results:
            array.fill(0)
    for data in memory:
        call("mgx_device_free", device.handle, 2, data)
    call("mgx_stream_release", device.handle, stream)


def test_a_run_goes_on_while_the_caller_works(device: Device, gpu_files: dict[str, bytes]) -> None:
    program = Program(Artifact(gpu_files["search"]), device, trust_code=1)
    plan = PythonArtifact.from_bytes(gpu_files["search"]).plan
    inputs = given(plan, 1, 2)
    wanted = program.run(inputs)
    arrays = program.arrays(inputs)
    results = [np.zeros_like(wanted[name]) for name, _ in program.outputs]
    pending = c_void_p()
    counts = c_size_t(len(arrays)), c_size_t(len(results))
    call("mgx_run_async", program.handle, tensors(arrays), counts[0], tensors(results), counts[1],
         None, byref(pending))  # fmt: skip
    call("mgx_wait", pending)
    same(dict(zip(wanted, results, strict=True)), wanted)


def test_a_failed_launch_names_the_kernel_and_the_program_runs_again(
    device: Device, gpu_files: dict[str, bytes], failures: Callable[[bytes], None]
) -> None:
    program = Program(Artifact(gpu_files["several kernels"]), device, trust_code=1, graph=-1)
    inputs = given(PythonArtifact.from_bytes(gpu_files["several kernels"]).plan, 1, 0)
    wanted = program.run(inputs)
    failures(b"hipModuleLaunchKernel:1")
    with pytest.raises(
        LibraryError, match=r"^Device: hipModuleLaunchKernel failed: .*kernel .* of"
    ):
        program.run(inputs)
    failures(b"")
    same(program.run(inputs), wanted)


def test_without_a_graph_kernels_are_launched_one_by_one_and_it_is_said(
    device: Device, gpu_files: dict[str, bytes], failures: Callable[[bytes], None]
) -> None:
    program = Program(Artifact(gpu_files["several kernels"]), device, trust_code=1)
    inputs = given(PythonArtifact.from_bytes(gpu_files["several kernels"]).plan, 1, 0)
    said: list[str] = []
    heard = LOG(lambda user, level, text: said.append(text.decode()))
    library().mgx_log_to(heard, None)
    try:
        failures(b"hipGraphInstantiateWithFlags:1")
        first = program.run(inputs)
        failures(b"")
        same(program.run(inputs), first)
    finally:
        library().mgx_log_end(heard, None)
    assert any("no HIP graph, kernels are launched one by one" in text for text in said)


def test_code_for_another_chip_says_how_to_make_it(device: Device, files: dict[str, bytes]) -> None:
    with pytest.raises(LibraryError, match=r"^Target: .*gfx942.*mgx finalize FILE --arch gfx942"):
        Program(Artifact(files["search"]), device, trust_code=1)


def test_branches_run_side_by_side_where_that_pays(
    device: Device, folder: Path, failures: Callable[[bytes], None]
) -> None:
    """Each stream has scratch memory of its own."""
    chains = [[f"{name}{place}" for place in range(12)] for name in "ab"]
    nodes = " ".join(
        f"{own} = CumSum <reverse = {place % 2}, exclusive = {int(own[0] == 'b')}> ({last}, axis)"
        for chain in chains
        for place, (last, own) in enumerate(zip(["x", *chain], chain, strict=False))
    )
    text = f"""<ir_version: 9, opset_import: ["": 17]> g (float[256] x) => (float[256] y)
        <int64 axis = {{0}}> {{ {nodes} y = Add (a11, b11) }}"""
    settings = Settings(cache_dir=folder / "cache", hip="emulated")
    portable = mgx_mlir.compile_to_bytecode(parser.parse_model(text))
    artifact = mgx_mlir.finalize(portable, "gfx942", settings=settings)
    other = mgx_mlir.compile(portable, "cpu", settings=settings)
    x = {"x": np.random.default_rng(0).random(256, np.float32) / 1e30}
    for graph in (0, -1):
        program = Program(Artifact(artifact.to_bytes()), device, trust_code=1, graph=graph)
        failures(b"hipMalloc:1000000")  # counts calls by name
        found, wanted = program.run(x)["y"], other.run(x)["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        beside = emulator.call_count("hipStreamCreateWithFlags")
        failures(b"")
        assert beside == (1 if graph else 0)
        # Each tensor of the arena, and scratch memory of two streams.
        assert program.info.kept_bytes > artifact.plan.arena_bytes


def test_runs_in_the_background_outlive_their_programs_and_devices(
    gpu_files: dict[str, bytes],
) -> None:
    """The device decides what runs, so that a thread goes on with each: it may begin late."""
    artifact = Artifact(gpu_files["search"])
    inputs = given(PythonArtifact.from_bytes(gpu_files["search"]).plan, 1, 0)
    wanted = Program(artifact, opened("gfx942"), trust_code=1).run(inputs)
    for _ in range(20):
        program = Program(artifact, opened("gfx942"), trust_code=1)
        taken = {name: np.empty_like(array) for name, array in wanted.items()}
        arrays = tensors(program.arrays(inputs)), tensors(list(taken.values()))
        counts = c_size_t(len(inputs)), c_size_t(len(taken))
        pending, handle = c_void_p(), program.handle
        program.handle = c_void_p()
        call(
            "mgx_run_async", handle, arrays[0], counts[0], arrays[1], counts[1], None,
            byref(pending),
        )  # fmt: skip
        library().mgx_program_release(handle)
        call("mgx_wait", pending)
        same(taken, wanted)
