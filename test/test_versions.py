"""Versions of the stored form: golden files of each are read, upgraded and written again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlir import ir
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir._native import _mgx
from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.weights import is_splat
from mgx_mlir.artifact.writer import HEADER, OLDEST, VERSION
from mgx_mlir.compiler import CompileOptions, compile_to_bytecode
from mgx_mlir.dialects import context
from mgx_mlir.errors import ArtifactError, UnsupportedError, UsageError
from mgx_mlir.rewriting.portable import kernel_to_bytecode, read_kernel
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main
from test.golden.files import ARTIFACTS, MODULES, VERSIONS, expected, name_of

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "examples/digits.onnx"


def softplus() -> bytes:
    """A model of an op that came with 1.1."""
    node = helper.make_node("Softplus", ["x"], ["y"], "plus")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    graph = helper.make_graph([node], "softplus", [x], [y])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def filled() -> bytes:
    """A model whose folded weights repeat one element."""
    shape = helper.make_node(
        "ConstantOfShape", ["s"], ["c"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2])
    )
    size = helper.make_tensor("s", TensorProto.INT64, [2], [256, 256])
    product = helper.make_node("MatMul", ["x", "c"], ["y"], "product")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 256]) for n in "xy")
    graph = helper.make_graph([shape, product], "filled", [x], [y], [size])
    opsets = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def format_of(data: bytes) -> tuple[int, int]:
    _, major, minor, *_ = HEADER.unpack_from(data)
    return major, minor


def test_there_are_golden_files_of_every_version() -> None:
    newest = _mgx.dialect_version()
    assert newest == VERSION
    assert _mgx.oldest_dialect_version() == OLDEST
    assert set(VERSIONS) == {(1, minor) for minor in range(newest[1] + 1)}


@pytest.mark.parametrize("path", ARTIFACTS, ids=name_of)
def test_golden_artifact_is_written_again_as_the_same_bytes(path: Path) -> None:
    artifact = Artifact.open(path)
    assert artifact.to_bytes() == path.read_bytes()
    for kernel in artifact.kernels:
        module, op = read_kernel(kernel.bytecode)
        assert kernel_to_bytecode(op, kernel.dialect) == kernel.bytecode
        assert kernel_to_bytecode(op) == kernel.bytecode
        newest = kernel_to_bytecode(op, _mgx.dialect_version())
        assert str(read_kernel(newest)[0]) == str(module)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_op_of_a_version_is_read_and_written_again_as_the_same_bytes(path: Path) -> None:
    version = next(v for v, folder in VERSIONS.items() if folder in path.parents)
    with context():
        module = ir.Module.parse(path.read_bytes())
        assert module.operation.verify()
        assert _mgx.write_bytecode(module.operation, version) == path.read_bytes()


@pytest.mark.parametrize("path", ARTIFACTS, ids=name_of)
def test_golden_artifact_runs_on_the_host(path: Path) -> None:
    x, y = expected(path)
    program = mgx_mlir.compile(Artifact.open(path), "cpu", settings=Settings(jobs=1))
    (found,) = program.run({"x": x}).values()
    tolerance = 1e-5 if y.dtype == np.float32 else 4e-3
    np.testing.assert_allclose(found.astype(np.float32), y.astype(np.float32), tolerance, tolerance)


def test_convolutions_have_channels_last_for_readers_that_know_it() -> None:
    newest, oldest = compile_to_bytecode(DIGITS), compile_to_bytecode(DIGITS, version=(1, 0))
    assert (newest.dialect, oldest.dialect) == ((1, 1), (1, 0))


def test_what_needs_nothing_new_is_written_as_the_oldest_version() -> None:
    artifact = compile_to_bytecode(DIGITS, CompileOptions(disable=["mgx-layout-convolution"]))
    assert artifact.dialect == (1, 0)
    assert format_of(artifact.to_bytes()) == (1, 0)
    assert artifact.to_bytes(version=(1, 0)) == artifact.to_bytes()


def test_op_that_an_older_version_lacks_is_named() -> None:
    artifact = compile_to_bytecode(softplus())
    assert artifact.dialect == (1, 1)
    with pytest.raises(UnsupportedError, match=r"mgx\.log1p, from plus, needs version 1\.1"):
        compile_to_bytecode(softplus(), version=(1, 0))
    with pytest.raises(UsageError, match=r"kernel k0\w* \(plus\) has ops of version 1\.1"):
        artifact.to_bytes(version=(1, 0))
    assert Artifact.from_bytes(artifact.to_bytes()).content_hash == artifact.content_hash


@pytest.mark.parametrize("version", [(0, 9), (1, 7), (2, 0)])
def test_only_known_versions_are_written(version: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"versions 1\.0 to 1\.1 can be written"):
        compile_to_bytecode(DIGITS).to_bytes(version=version)


def test_command_line_writes_an_older_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, out = tmp_path / "softplus.onnx", tmp_path / "out.mgx"
    model.write_bytes(softplus())
    arguments = ["compile", str(model), "-o", str(out), "--artifact-version"]
    assert main([*arguments, "1.0"]) == 1
    assert "mgx.log1p, from plus, needs version 1.1" in capsys.readouterr().err
    assert not out.exists()
    assert main([*arguments, "1.9"]) == 2
    assert "versions 1.0 to 1.1" in capsys.readouterr().err
    assert main([*arguments, "1.1"]) == 0
    assert main(["compile", str(DIGITS), "-o", str(out), "--artifact-version", "1.0"]) == 0
    assert Artifact.open(out).dialect == (1, 0)


def test_weights_of_one_element_take_no_room() -> None:
    artifact = compile_to_bytecode(filled())
    small, large = artifact.to_bytes(), artifact.to_bytes(version=(1, 0))
    assert format_of(small) == (1, 1) and format_of(large) == (1, 0)
    assert len(small) < 8192 and len(large) > 256 * 256 * 4
    again, spread = Artifact.from_bytes(small), Artifact.from_bytes(large)
    assert again.content_hash == spread.content_hash == artifact.content_hash
    assert again.to_bytes() == small
    (weight,), (other,) = again.weight_arrays().values(), spread.weight_arrays().values()
    assert is_splat(weight) and not is_splat(other)
    np.testing.assert_array_equal(weight, other)
    x = np.random.default_rng(0).standard_normal((2, 256)).astype(np.float32)
    for loaded in (again, spread):
        program = mgx_mlir.compile(loaded, "cpu", settings=Settings(jobs=1))
        np.testing.assert_allclose(program.run({"x": x})["y"], x @ weight, 1e-5, 1e-4)


def restamped(kernel: PortableKernel, minor: int, **names: str) -> PortableKernel:
    """A kernel as a compiler of a later minor version might have written it."""
    module, op = read_kernel(kernel.bytecode)
    newest = kernel_to_bytecode(op, _mgx.dialect_version())
    del module
    section = bytes([7, 5, 3, 2 * _mgx.dialect_version()[1] + 1])  # each number n as 2 n + 1
    assert newest.count(section) == 1
    data = newest.replace(section, bytes([7, 5, 3, 2 * minor + 1]))
    for name, other in names.items():
        assert data.count(name.encode()) == 1
        data = data.replace(name.encode(), other.encode())
    return replace(kernel, bytecode=data, dialect=(1, minor))


def test_artifact_of_the_next_minor_version_with_known_ops_runs() -> None:
    path = VERSIONS[1, 0] / "classifier.mgx"
    whole = Artifact.open(path)
    later = replace(whole, kernels=tuple(restamped(k, VERSION[1] + 1) for k in whole.kernels))
    artifact = Artifact.from_bytes(later.to_bytes())
    assert artifact.dialect == (1, VERSION[1] + 1)
    x, y = expected(path)
    program = mgx_mlir.compile(artifact, "cpu", settings=Settings(jobs=1))
    np.testing.assert_allclose(next(iter(program.run({"x": x}).values())), y, 1e-5, 1e-5)


def test_op_of_a_later_version_is_named() -> None:
    whole = Artifact.open(VERSIONS[1, 0] / "classifier.mgx")
    (pooling,) = (k for k in whole.kernels if "pooling" in k.name)
    unknown = restamped(pooling, VERSION[1] + 1, pooling="poolung")
    with pytest.raises(ArtifactError, match=r"(?s)mgx\.poolung.*newer version .* than 1\.1"):
        read_kernel(unknown.bytecode)
