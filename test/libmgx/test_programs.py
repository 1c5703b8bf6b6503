"""libmgx gives what the Python package gives, for each feature of plans."""

from __future__ import annotations

import subprocess
import sys
import threading
from ctypes import byref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser

import mgx_mlir
from mgx_mlir.artifact import library as parts
from mgx_mlir.artifact.element_types import numpy_dtype
from mgx_mlir.artifact.formulas import bound, values
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.record import Artifact as PythonArtifact
from mgx_mlir.artifact.signature import canonical_json
from mgx_mlir.errors import UsageError
from mgx_mlir.settings import Settings
from test.fuzz.artifacts.programs import PROGRAMS
from test.golden.files import ARTIFACTS, expected, name_of
from test.libmgx.conftest import QUICK
from test.libmgx.library import Artifact, Device, LibraryError, Program, tensors

OTHERS = [name for name in PROGRAMS if name not in (*QUICK, "parts")]
# Sizes to run with: those of static programs among them.
SIZES = (1, 2, 5, 7, 2)


def given(plan: Any, size: int, seed: int) -> dict[str, np.ndarray]:
    """Inputs of a plan whose symbols have sizes near to this one."""
    rng = np.random.default_rng(seed)
    known = {}
    for dim in plan.dims:
        size = max(dim.low, size if dim.high is None else min(size, dim.high))
        known[dim.name] = size
    found = values(plan.formulas, known)
    return {
        spec.name: rng.integers(0, 4, [bound(n, found) for n in spec.shape]).astype(
            numpy_dtype(spec.dtype)
        )
        for spec in plan.inputs
    }


def same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def check_results(data: bytes, threads: int, folder: Path) -> None:
    """Compares runs of a file with those of the Python package."""
    path = folder / f"{threads}.mgx"
    path.write_bytes(data)
    program = Program(Artifact(path), Device(f"cpu:{threads}"), cache_dir=bytes(folder / "cache"))
    python = PythonArtifact.open(path)
    settings = Settings(cache_dir=folder / "cache", threads=1)
    other = mgx_mlir.compile(python, "cpu", settings=settings)
    for seed, size in enumerate(SIZES if python.plan.dims else SIZES[:2]):
        inputs = given(python.plan, size, seed)
        try:
            wanted = other.run(inputs)
        except mgx_mlir.MgxError as error:
            with pytest.raises(LibraryError) as said:
                program.run(inputs)
            assert type(error).__name__ == f"{said.value.kind}Error"
            continue
        same(program.run(inputs), wanted)


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_those_of_the_python_package(
    name: str, threads: int, files: dict[str, bytes], folder: Path
) -> None:
    check_results(files[name], threads, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_results_of_more_programs(name: str, all_files: dict[str, bytes], folder: Path) -> None:
    check_results(all_files[name], 2, folder)


@pytest.mark.slow
@pytest.mark.parametrize("path", ARTIFACTS, ids=name_of)
def test_artifacts_of_every_version_run(path: Path, folder: Path) -> None:
    x, y = expected(path)
    settings = Settings(cache_dir=folder / "cache", jobs=1)
    data = mgx_mlir.finalize(mgx_mlir.load(path), "cpu", settings=settings).to_bytes()
    found = Program(Artifact(data), Device("cpu:2"), trust_code=1).run({"x": x})
    np.testing.assert_allclose(found["y"], y, rtol=2e-2, atol=2e-3)


def test_a_signature_names_types_sizes_and_bounds(files: dict[str, bytes]) -> None:
    artifact = Artifact(files["some sizes and any"])
    (x,), (y,) = artifact.tensors(0), artifact.tensors(1)
    assert (x.name, x.type, x.rank, x.may_share) == (b"x", 1, 2, -1)
    assert (x.sizes[:2], x.texts[:2]) == ([-1, 24], [b"n", b"24"])
    assert (y.name, y.sizes[:2]) == (b"y", [-1, 24])
    dim = artifact.dimension(0)
    assert (dim.name, dim.least, dim.most) == (b"n", 1, 16)
    python = PythonArtifact.from_bytes(files["some sizes and any"])
    assert artifact.targets == [name.partition(":")[0] for name in python.code_objects]
    info = artifact.info
    assert info.content_hash.decode() == python.content_hash
    assert (info.name.decode(), info.producer.decode()) == (python.name, python.producer)
    assert info.host_operators is None
    shares = [t.may_share for t in Artifact(files["caches in place"]).tensors(1)]
    pairs = dict(PythonArtifact.from_bytes(files["caches in place"]).plan.in_place)
    assert shares == [pairs.get(number, -1) for number in range(len(shares))]
    assert pairs


@pytest.mark.slow
def test_a_program_in_parts_says_who_runs_it(all_files: dict[str, bytes]) -> None:
    artifact = Artifact(all_files["parts"])
    assert b"NonZero" in artifact.info.host_operators
    with pytest.raises(LibraryError, match=r"Usage: .* NonZero .*mgx_mlir.Model"):
        Program(artifact, Device("cpu"), trust_code=1)


def test_wrong_calls_are_told_the_program_s_own_tensors(
    files: dict[str, bytes], folder: Path
) -> None:
    (folder / "beside.mgx").write_bytes(files["weights beside"])
    artifact = Artifact(folder / "beside.mgx")
    program = Program(artifact, Device("cpu:1"), trust_code=1)
    inputs = [np.zeros((6, 24), np.float32) for _ in range(2)]
    outputs = [np.zeros((6, 24), np.float32), np.zeros((6, 48), np.float32)]
    program.run_on(tensors(inputs), tensors(outputs))

    def refused(given: Any, taken: Any) -> str:
        with pytest.raises(LibraryError, match=r"^Usage") as said:
            program.run_on(given, taken)
        return said.value.text

    assert "2 inputs; got 1" in refused(tensors(inputs[:1]), tensors(outputs))
    assert "2 outputs; got 0" in refused(tensors(inputs), tensors([]))
    short = [inputs[0][:5], inputs[1]]
    assert refused(tensors(short), tensors(outputs)).endswith("is float32[6, 24]; got [5, 24]")
    typed = tensors(inputs)
    typed[1].type = 11
    assert refused(typed, tensors(outputs)).endswith("got float64[6, 24]")
    typed = tensors(inputs)
    typed[0].bytes = 24
    assert "takes 576 bytes; got 24" in refused(typed, tensors(outputs))
    typed[0].data, typed[0].bytes = None, 0
    assert "no memory" in refused(typed, tensors(outputs))
    typed[0].data = inputs[0].ctypes.data + 2
    assert "aligned" in refused(typed, tensors(outputs))
    assert "overlaps" in refused(tensors(inputs), tensors([inputs[0], outputs[1]]))


def test_many_threads_run_one_program_of_any_sizes(files: dict[str, bytes]) -> None:
    artifact = Artifact(files["some sizes and any"])
    program = Program(artifact, Device("cpu:2"), trust_code=1, kept_sizes=4)
    plan = PythonArtifact.from_bytes(files["some sizes and any"]).plan
    cases = [given(plan, size, size) for size in range(1, 7)]
    wanted = [program.run(inputs) for inputs in cases]
    faults: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for turn in range(12):
                number = (start + turn) % len(cases)
                same(program.run(cases[number]), wanted[number])
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    info = program.info
    assert info.runs == 6 + 4 * 12
    assert info.bindings >= 6


def test_a_run_of_known_sizes_makes_nothing_ready(files: dict[str, bytes]) -> None:
    program = Program(Artifact(files["some sizes and any"]), Device("cpu:1"), trust_code=1)
    inputs = given(PythonArtifact.from_bytes(files["some sizes and any"]).plan, 3, 0)
    program.run(inputs)
    before = program.info
    for _ in range(5):
        program.run(inputs)
    after = program.info
    assert before.bindings == after.bindings == 1
    assert before.kept_bytes == after.kept_bytes > 0


def test_programs_of_one_artifact_share_its_weights(files: dict[str, bytes], folder: Path) -> None:
    (folder / "shared.mgx").write_bytes(files["weights beside"])
    artifact, device = Artifact(folder / "shared.mgx"), Device("cpu:1")
    first = Program(artifact, device, trust_code=1)
    held = first.info.weight_bytes
    second = Program(artifact, Device("cpu:2"), trust_code=1)
    assert second.info.weight_bytes == first.info.weight_bytes == held > 0
    del first, artifact
    inputs = given(PythonArtifact.open(folder / "shared.mgx").plan, 1, 0)
    other = Program(Artifact(folder / "shared.mgx"), device, trust_code=1)
    same(second.run(inputs), other.run(inputs))


MATRICES = """<ir_version: 9, opset_import: ["": 18]>
g (float[4, 1024] x) => (float[4, 1024] y) { a = MatMul (x, w) b = Relu (a) y = MatMul (b, v) }"""
RESIDENT = """
import sys
import numpy as np
from test.libmgx.library import Artifact, Device, Program
program = Program(Artifact(sys.argv[1]), Device("cpu:1"), trust_code=1)
program.run({"x": np.ones((4, 1024), np.float32)})
own = False
for line in open("/proc/self/smaps"):
    if line[0] in "0123456789abcdef" and "-" in line.split()[0]:
        own = line.rstrip().endswith(sys.argv[1])
    elif own and line.startswith("Rss:"):
        print(line.split()[1])
"""


def test_pages_of_weights_that_are_packed_are_given_back(folder: Path, tmp_path: Path) -> None:
    model = parser.parse_model(MATRICES)
    for name in "wv":
        array = np.random.default_rng(0).standard_normal((1024, 1024), np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    settings = Settings(cache_dir=folder / "cache", jobs=1)
    path = tmp_path / "weights.mgx"
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), "cpu", settings=settings)
    (code, *_) = artifact.code_objects.values()
    assert any(launch.kept for one in code for launch in one.launches)
    artifact.save(path)
    said = subprocess.run(
        [sys.executable, "-c", RESIDENT, str(path)], capture_output=True, text=True, check=True
    )
    assert int(said.stdout.split()[0]) < 2048  # kB, of 8192


def test_a_weight_without_a_key_is_refused() -> None:
    weights = (parts.Weight * 1)(parts.Weight(None, None, 4, 1, 0, None))
    plan = canonical_json(Plan((), (), 0, (), ()).to_json())
    assembly = parts.made(parts.Assembly, plan=plan, weights=weights, weight_count=1)
    with pytest.raises(UsageError, match="a weight has no key"):
        parts.Handle("mgx_artifact_assemble", "mgx_artifact_release", byref(assembly))


def test_plans_are_bound_for_a_gpu_with_rates_and_without_data() -> None:
    plan = canonical_json(Plan((), (), 0, (), ()).to_json())
    own = parts.Handle(
        "mgx_artifact_assemble",
        "mgx_artifact_release",
        byref(parts.made(parts.Assembly, plan=plan)),
    )
    texts: list[bytes] = []
    take = parts.TextFunction(lambda _, text: texts.append(text))
    for rate in (0.0, -1.0, float("nan")):
        rates = parts.made(parts.Rates, bytes_per_second=1, flops_per_second=1, compute_units=rate)
        with pytest.raises(UsageError, match="rates of a GPU are above 0"):
            parts.call("mgx_artifact_bind", own.value, None, 0, byref(rates), take, None)
    rates = parts.made(parts.Rates, bytes_per_second=1, flops_per_second=1, compute_units=1)
    with pytest.raises(UsageError, match="the program has 0 inputs"):
        shapes = (parts.Tensor * 1)()
        parts.call("mgx_artifact_bind", own.value, shapes, 1, byref(rates), take, None)
    parts.call("mgx_artifact_bind", own.value, None, 0, byref(rates), take, None)
    assert texts == [b'{"arena":0,"counts":0,"parts":[],"schedules":[],"scratch":0,"steps":[]}']
