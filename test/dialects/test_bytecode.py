"""The stored form: every op through bytecode, and versions of the dialect."""

import re
from pathlib import Path

import pytest
from mlir import ir

from mgx_mlir._native import _mgx
from mgx_mlir.dialects import context, mgx

CORPUS = sorted((Path(__file__).parents[2] / "lit_tests/dialect").glob("roundtrip_*.mlir"))
# 1.0 as the writer encodes it: the section's number, its two bytes, each number n as 2 n + 1.
VERSION_SECTION = b"\x07\x05\x03\x01"

KERNEL = """
mgx.kernel @k(%x: tensor<?x3xf32, #mgx.dims<[b : 1 ... 64 {1, 8}, _]>>)
    -> tensor<?x3xf32, #mgx.dims<[b : 1 ... 64 {1, 8}, _]>>
    attributes {arch = #mgx.arch<"gfxMIGX">, features = ["f16"]} {
  %y = mgx.relu %x : tensor<?x3xf32, #mgx.dims<[b : 1 ... 64 {1, 8}, _]>>
  mgx.return %y : tensor<?x3xf32, #mgx.dims<[b : 1 ... 64 {1, 8}, _]>>
}
"""


@pytest.fixture(autouse=True)
def _context():
    with context(), ir.Location.unknown():
        yield


def test_the_corpus_holds_every_op():
    text = "".join(path.read_text() for path in CORPUS)
    assert set(re.findall(r"\bmgx\.[a-z_0-9]+", text)) >= mgx.OPS


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_keeps_every_op(path):
    module = ir.Module.parse(path.read_text())
    read = ir.Module.parse(_mgx.write_bytecode(module.operation))
    assert str(read) == str(module)


def test_keeps_attributes_of_the_dialect():
    module = ir.Module.parse(KERNEL)
    assert str(ir.Module.parse(_mgx.write_bytecode(module.operation))) == str(module)


def test_same_op_gives_the_same_bytes():
    module = ir.Module.parse(KERNEL)
    again = ir.Module.parse(KERNEL)
    assert _mgx.write_bytecode(module.operation) == _mgx.write_bytecode(again.operation)


def test_attributes_are_stored_in_binary_form():
    data = _mgx.write_bytecode(ir.Module.parse(KERNEL).operation)
    assert b"#mgx" not in data and b"..." not in data


def _with_version(major: int, minor: int) -> bytes:
    data = _mgx.write_bytecode(ir.Module.parse(KERNEL).operation)
    assert data.count(VERSION_SECTION) == 1
    return data.replace(VERSION_SECTION, bytes([7, 5, 2 * major + 1, 2 * minor + 1]))


def test_versions_are_pairs():
    assert _mgx.dialect_version() == (1, 1)
    assert _mgx.oldest_dialect_version() == (1, 0)


def test_refuses_a_newer_major_version_and_says_both():
    with pytest.raises(ir.MLIRError, match=r"version 2\.7 .* reads up to version 1\.x \(it has 1"):
        ir.Module.parse(_with_version(2, 7))


@pytest.mark.parametrize("ahead", [1, 2])
def test_reads_a_newer_minor_version_of_known_ops(ahead):
    major, minor = _mgx.dialect_version()
    assert "relu" in str(ir.Module.parse(_with_version(major, minor + ahead)))


# The stored form: the op that it needs, its operands, and the version that it came with.
NEWER = {
    "mgx.log1p": ("%y = mgx.log1p %x : tensor<4xf32>", "f32", (1, 1)),
    "attribute precision of mgx.quantizelinear": (
        "%y = mgx.quantizelinear %x scale %x {precision = f16}"
        " : tensor<4xf32>, tensor<4xf32> -> tensor<4xui8>",
        "ui8",
        (1, 1),
    ),
    "attribute pad_value of mgx.quant_convolution": (
        "%i = mgx.convert %x : tensor<4xf32> -> tensor<4xi8>\n"
        "%b = mgx.reshape %i : tensor<4xi8> -> tensor<1x1x4xi8>\n"
        "%c = mgx.quant_convolution %b, %b pads = [0, 3] strides = [1] dilations = [1]"
        " {pad_value = 5 : i64} : tensor<1x1x4xi8>, tensor<1x1x4xi8> -> tensor<1x1x4xi32>\n"
        "%y = mgx.reshape %c : tensor<1x1x4xi32> -> tensor<4xi32>",
        "i32",
        (1, 1),
    ),
}


def _kernel(body: str, element: str) -> ir.Module:
    return ir.Module.parse(f"""
        mgx.kernel @k(%x: tensor<4xf32>) -> tensor<4x{element}>
            attributes {{arch = #mgx.arch<"gfxMIGX">}} {{
          {body}
          mgx.return %y : tensor<4x{element}>
        }}""")


@pytest.mark.parametrize("reason", NEWER)
def test_what_is_new_asks_for_its_version_by_name(reason):
    body, element, version = NEWER[reason]
    module = _kernel(body, element)
    assert _mgx.required_version(module.operation) == (version, reason)
    data = _mgx.write_bytecode(module.operation)
    assert str(ir.Module.parse(data)) == str(module)
    assert data == _mgx.write_bytecode(module.operation, version=version)
    with pytest.raises(ValueError, match=rf"{reason} needs version 1\.1 .* 1\.0 is asked for"):
        _mgx.write_bytecode(module.operation, version=(1, 0))


def test_what_needs_nothing_new_is_written_in_the_oldest_version():
    module = ir.Module.parse(KERNEL)
    assert _mgx.required_version(module.operation) == ((1, 0), "")
    data = _mgx.write_bytecode(module.operation)
    assert data == _mgx.write_bytecode(module.operation, version=(1, 0))
    assert VERSION_SECTION in data
    newest = _mgx.write_bytecode(module.operation, version=_mgx.dialect_version())
    assert newest != data
    assert str(ir.Module.parse(newest)) == str(ir.Module.parse(data))


def test_an_older_reader_refuses_an_attribute_that_it_does_not_know():
    """Without the attribute the bytes are those of 1.0; with it, no bool stands where 1.0 reads
    saturate."""
    body = NEWER["attribute precision of mgx.quantizelinear"][0]
    without = _kernel(body.replace(" {precision = f16}", ""), "ui8")
    assert _mgx.required_version(without.operation) == ((1, 0), "")
    assert b"precision" in _mgx.write_bytecode(_kernel(body, "ui8").operation)


@pytest.mark.parametrize("version", [(0, 9), (1, 99), (2, 0)])
def test_refuses_to_write_an_unknown_version(version):
    with pytest.raises(ValueError, match=r"versions 1\.0 to 1\.1 .* can be written"):
        _mgx.write_bytecode(ir.Module.create().operation, version=version)


def test_every_op_says_the_version_that_it_came_with():
    """An op that is not in a golden file of 1.0 carries Mgx_Since<minor> in its list of traits."""
    golden = Path(__file__).parents[1] / "golden" / "v1.0" / "ops.txt"
    first = set(golden.read_text().split())
    versions = _mgx.op_versions(ir.Context.current)
    assert set(versions) == mgx.OPS
    assert {op for op, version in versions.items() if version == (1, 0)} == first


def test_golden_files_of_the_newest_version_hold_every_op():
    """Until the version is released, `python -m test.golden.make` writes its folder anew."""
    newest = ".".join(map(str, _mgx.dialect_version()))
    listed = Path(__file__).parents[1] / "golden" / f"v{newest}" / "ops.txt"
    assert set(listed.read_text().split()) == mgx.OPS


def test_damaged_bytes_are_an_error():
    data = _mgx.write_bytecode(ir.Module.parse(KERNEL).operation)
    for length in range(8, len(data), 7):
        with pytest.raises(ir.MLIRError):
            ir.Module.parse(data[:length])
