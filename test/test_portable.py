"""Kernels in stored form: what they are, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mlir import ir

from mgx_mlir._native import _mgx
from mgx_mlir.dialects import context
from mgx_mlir.errors import ArtifactError, CompilerError, UnsupportedError
from mgx_mlir.rewriting.portable import (
    PROGRAM_OPS,
    kernel_to_bytecode,
    portable_kernel,
    read_kernel,
    required_features,
    verify_portable,
)

ADD = """
mgx.kernel @{name}(%a: tensor<4x{t}>, %b: tensor<4x{t}>) -> tensor<4x{t}>
    attributes {{arch = #mgx.arch<"{arch}">}} {{
  %c = mgx.add %a, %b : tensor<4x{t}>, tensor<4x{t}> -> tensor<4x{t}> loc("{node}")
  %d = mgx.pointwise(%c) : (tensor<4x{t}>) -> tensor<4x{t}> {{
  ^bb0(%x: {t}):
    %y = mgx.mul %x, %x : {t}, {t} -> {t}
    mgx.yield %y : {t}
  }}
  mgx.return %d : tensor<4x{t}>
}} loc(fused["{node}", "Relu_1"])
"""


# An op is of use only as long as its module is there.
_alive: list[ir.Module] = []


def kernel(
    name: str = "k0", node: str = "Add_0", t: str = "f32", arch: str = "gfxMIGX"
) -> ir.OpView:
    module = ir.Module.parse(ADD.format(name=name, node=node, t=t, arch=arch), context())
    _alive.append(module)
    return module.body.operations[0]


def parsed(text: str) -> ir.Module:
    ctx = context()
    return ir.Module.parse(text, ctx)


def test_equal_kernels_are_equal_bytes_whatever_their_names() -> None:
    bytecode = kernel_to_bytecode(kernel())
    assert kernel_to_bytecode(kernel("other", "Add_99")) == bytecode
    assert kernel_to_bytecode(kernel(t="f16")) != bytecode
    assert b"Add_0" not in bytecode


def test_stored_kernel_reads_back_as_the_same_bytes() -> None:
    bytecode = kernel_to_bytecode(kernel())
    module, op = read_kernel(bytecode)
    assert op.operation.name == "mgx.kernel"
    assert ir.StringAttr(op.attributes["sym_name"]).value == "kernel"
    assert kernel_to_bytecode(op) == bytecode
    assert module.operation.verify()


def test_record_says_where_a_kernel_comes_from() -> None:
    record = portable_kernel(kernel("k5_add", "Add_7"))
    assert record.name == "k5_add"
    assert record.nodes == ("Add_7", "Relu_1")
    assert record.dialect == (1, 0)  # the oldest that holds it
    assert record.sha256 == portable_kernel(kernel()).sha256


def test_writing_leaves_the_program_as_it_is() -> None:
    op = kernel()
    before = op.operation.get_asm(enable_debug_info=True)
    kernel_to_bytecode(op)
    assert op.operation.get_asm(enable_debug_info=True) == before


@pytest.mark.parametrize(
    ("element", "features"),
    [
        ("f32", []),
        ("i8", []),
        ("f64", ["f64"]),
        ("bf16", ["bf16"]),
        ("f8E4M3FN", ["fp8-ocp"]),
        ("f8E5M2FNUZ", ["fp8-fnuz"]),
        ("f4E2M1FN", ["mx"]),
    ],
)
def test_features_follow_from_element_types(element: str, features: list[str]) -> None:
    op = kernel(t=element)
    assert sorted(required_features(op)) == features
    _, read = read_kernel(kernel_to_bytecode(op))
    stored = [ir.StringAttr(name).value for name in ir.ArrayAttr(read.attributes["features"])]
    assert stored == features
    assert "gfx9" not in str(read)


def test_a_chip_is_refused() -> None:
    with pytest.raises(CompilerError, match=r"gfxMIGX.*gfx942"):
        kernel_to_bytecode(kernel(arch="gfx942"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("func.func @f() { return }", "func.func"),
        ("", "nothing"),
        (ADD.format(name="a", node="n", t="f32", arch="gfxMIGX") * 1
         + ADD.format(name="b", node="n", t="f32", arch="gfxMIGX"), "mgx.kernel, mgx.kernel"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              %z = mgx.literal "w" : tensor<4xf32>
              mgx.return %z : tensor<4xf32>
            }""", "mgx.literal"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              mgx.return %a : tensor<4xf32>
            }
            module attributes {} {}""", "builtin.module"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              %b = mgx.relu %a {note = #gpu.address_space<global>} : tensor<4xf32>
              mgx.return %b : tensor<4xf32>
            }""", "gpu"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              %b = mgx.relu %a {note = [{deep = [#arith.overflow<nsw>]}]} : tensor<4xf32>
              mgx.return %b : tensor<4xf32>
            }""", "arith"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              %b = mgx.relu %a {note = !llvm.ptr} : tensor<4xf32>
              mgx.return %b : tensor<4xf32>
            }""", "llvm"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              %b = mgx.relu %a {note = 7} : tensor<4xf32>
              mgx.return %b : tensor<4xf32>
            }""", "definitions only, found note on mgx.relu"),
        ("""mgx.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              mgx.return %a : tensor<4xf32>
            }
            module attributes {} {}""", "builtin.module"),
        ("""mgx.kernel @k(%a: tensor<4x!llvm.ptr>) -> tensor<4xf32>
            attributes {arch = #mgx.arch<"gfxMIGX">} {
              %b = mgx.constant dense<1.0> : tensor<4xf32>
              mgx.return %b : tensor<4xf32>
            }""", "llvm"),
    ],
)  # fmt: skip
def test_anything_but_one_kernel_of_mgx_ops_is_refused(text: str, found: str) -> None:
    with pytest.raises(ArtifactError, match=found):
        verify_portable(parsed(text))


def test_page_lists_the_ops_of_each_version() -> None:
    page = (Path(__file__).parents[1] / "docs" / "portable.md").read_text()
    listed = {}
    for major, minor, words in re.findall(r"^\*\*(\d+)\.(\d+)\*\*:((?: [\w\s]+?)+)\.$", page, re.M):
        listed |= {f"mgx.{word}": (int(major), int(minor)) for word in words.split()}
    versions = _mgx.op_versions(context())
    assert listed == {op: came for op, came in versions.items() if op not in PROGRAM_OPS}


def test_ops_of_other_dialects_do_not_even_parse() -> None:
    text = ADD.format(name="a", node="n", t="f32", arch="gfxMIGX")
    text = text.replace("mgx.add %a, %b", "arith.addf %a, %b")
    text = text.replace(": tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>", ": tensor<4xf32>")
    with pytest.raises(ir.MLIRError, match=r"mgx ops only, got 'arith.addf'"):
        parsed(text)


def test_text_is_no_stored_kernel() -> None:
    text = ADD.format(name="a", node="n", t="f32", arch="gfxMIGX")
    with pytest.raises(ArtifactError, match="not MLIR bytecode"):
        read_kernel(text.encode())


@pytest.mark.parametrize("size", [4, 5, 20, 100, 200])
def test_bytecode_cut_short_is_refused(size: int) -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_kernel(kernel_to_bytecode(kernel())[:size])


def test_op_that_an_older_reader_does_not_know_is_named() -> None:
    text = ADD.format(name="a", node="Softplus_3", t="f32", arch="gfxMIGX")
    module = parsed(text.replace("mgx.mul %x, %x : f32, f32 -> f32", "mgx.log1p %x : f32"))
    (op,) = module.body.operations
    assert portable_kernel(op).dialect == (1, 1)
    message = r"mgx\.log1p, from Softplus_3\+Relu_1, needs version 1\.1 .* 1\.0 is asked for"
    with pytest.raises(UnsupportedError, match=message):
        portable_kernel(op, (1, 0))
    assert portable_kernel(kernel(), (1, 0)) == portable_kernel(kernel())


def test_version_that_cannot_be_written_is_named() -> None:
    with pytest.raises(ValueError, match="99"):
        kernel_to_bytecode(kernel(), (99, 0))
