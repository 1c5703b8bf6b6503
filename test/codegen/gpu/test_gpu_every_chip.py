"""Chips without an emulated device: a kernel of each family, by what its instructions are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest
from contraction_kernels import Product
from convolution_kernels import Convolution
from element_kernels import bias, concat, gather, gelu, lrn, pooling, topk, transpose
from emulated import SIBLINGS, run_on
from mlir import ir
from movement_kernels import cumsum, gathernd, nonzero, resize, scatter, suppress
from row_kernels import RowKernel

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import disassemble
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.machine.amdgpu_metadata import code_object_metadata
from test.codegen.attention_kernels import AttentionCase

# The other files here look at these.
TESTED = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
GPUS = [name for name in Target.names() if Target.get(name).kind == "gpu"]
OTHERS = [name for name in GPUS if name not in TESTED]
# One of each kind of instructions is in the fast tier.
FAST = ("gfx908", "gfx950", "gfx1103", "gfx1153", "gfx1200", "gfx1250")
CHIPS = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow, id=name) for name in OTHERS
]


class Kernel(Protocol):
    def kernel(self) -> tuple[ir.Module, ir.OpView]: ...


PADS = (1, 1, 1, 1)
FAMILIES: dict[str, Kernel] = {
    "product": Product((256, 256, 256), "nt", epilogue="bias"),
    "skinny product": Product((1, 1024, 1024), "nt", "f32"),
    "skinny product of bytes": Product((1, 1024, 1024), "nt", "i8"),
    "convolution": Convolution((1, 64, 28, 28), 64, (3, 3), pads=PADS, native=True),
    "depthwise": Convolution((1, 32, 28, 28), 32, (3, 3), pads=PADS, group=32, element="f32"),
    "attention": AttentionCase(4, 128, 128, 64, causal=0),
    "rows": RowKernel("softmax", (16384, 1024), (1,), "f16"),
    "pointwise": gelu((4096, 4096), "f16"),
    "broadcast": bias((32, 64, 56, 56), 1, "f32"),
    "transpose": transpose((256, 256), (1, 0), "f16"),
    "gather": gather((512, 64), (128,), 0, "f32"),
    "gather of places": gathernd((512, 512, 64), (4096,), 2, 0, "f16"),
    "scatter": scatter("add", (512, 64), (128, 64), 0, "f32"),
    "concat": concat([(16, 64), (48, 64)], 0, "f16"),
    "pooling": pooling("max", (1, 16, 28, 28), (3, 2, 1), (1, 1), "f32"),
    "resize": resize((1, 8, 16, 16), (1, 8, 32, 32), "f32", "linear"),
    "top-k": topk((4, 1000), 5, 1, "f32"),
    "running sums": cumsum((64, 512), 1, "f32"),
    "nonzero": nonzero((64, 64), 4096, "f32"),
    "boxes": suppress((1, 2, 64), 0.5, 10),
    "lrn": lrn((1, 32, 14, 14), 5, 0.75, "f32"),
}
# Matrix instructions of f16, bf16 and i8, and the registers that the operands of each take.
CDNA_4 = {
    "f16": ("v_mfma_f32_16x16x32_f16", 4, 4),
    "bf16": ("v_mfma_f32_16x16x32_bf16", 4, 4),
    "i8": ("v_mfma_i32_16x16x64_i8", 4, 4),
}
CDNA_3 = {
    "f16": ("v_mfma_f32_16x16x16_f16", 2, 2),
    "bf16": ("v_mfma_f32_16x16x16_bf16", 2, 2),
    "i8": ("v_mfma_i32_16x16x32_i8", 2, 2),
}
CDNA_1 = {
    "f16": ("v_mfma_f32_16x16x16f16", 2, 2),
    "bf16": ("v_mfma_f32_16x16x8bf16", 1, 1),
    "i8": ("v_mfma_i32_16x16x16i8", 1, 1),
}
RDNA_3 = {
    "f16": ("v_wmma_f32_16x16x16_f16", 8, 8),
    "bf16": ("v_wmma_f32_16x16x16_bf16", 8, 8),
    "i8": ("v_wmma_i32_16x16x16_iu8", 4, 4),
}
RDNA_4 = {
    "f16": ("v_wmma_f32_16x16x16_f16", 4, 4),
    "bf16": ("v_wmma_f32_16x16x16_bf16", 4, 4),
    "i8": ("v_wmma_i32_16x16x16_iu8", 2, 2),
}
GFX1250 = {
    "f16": ("v_wmma_f32_16x16x32_f16", 8, 8),
    "bf16": ("v_wmma_f32_16x16x32_bf16", 8, 8),
    "i8": ("v_wmma_i32_16x16x64_iu8", 8, 8),
}
RDNA_2 = {
    "f16": ("v_dot2c_f32_f16", 1, 1),
    "bf16": ("v_fmac_f32_e32", 1, 1),
    "i8": ("v_dot4c_i32_i8", 1, 1),
}
MATRIX = {
    "gfx10-3-generic": RDNA_2,
    "gfx9-4-generic": CDNA_3,
    "gfx908": CDNA_1,
    "gfx950": CDNA_4,
    **{name: RDNA_3 for name in OTHERS if name.startswith("gfx11")},
    **{name: RDNA_4 for name in OTHERS if name.startswith("gfx12")},
    "gfx1250": GFX1250,
}


@cache
def compiled(family: str, chip: str) -> tuple[CodeObject, str]:
    """The code object of a family's kernel, and its instructions."""
    _, op = FAMILIES[family].kernel()
    code = compiler(op)(Target.get(chip))
    return code, disassemble(code.data)


def registers(operand: str) -> int:
    """How many registers an operand such as 'v[4:7]' or 'v4' is."""
    found = re.fullmatch(r"[av]\[(\d+):(\d+)\]", operand)
    return int(found[2]) - int(found[1]) + 1 if found else 1


@pytest.mark.parametrize("chip", CHIPS)
def test_every_family_is_for_every_chip(chip: str) -> None:
    target = Target.get(chip)
    for family in FAMILIES:
        code, text = compiled(family, chip)
        assert "generic path" not in code.why, family
        # The chip's own decoder knows every instruction.
        assert "<unknown>" not in text, family
        (name,) = {code_object_metadata(code.data)["amdhsa.target"]}
        assert name.partition(":")[0] == f"amdgcn-amd-amdhsa--{chip}"
        for launch in code.launches:
            assert launch.block[0] % target.wave_size == 0, family
        for stats in code.stats.values():
            assert stats["vgpr_spills"] == stats["scratch_bytes"] == 0, family
            assert stats["wave_size"] == target.wave_size, family
            assert stats["vgpr"] <= target.max_vgprs, family
            assert stats["lds_bytes"] <= target.lds_bytes, family


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("element", ["f16", "bf16", "i8"])
def test_products_and_attention_use_the_chip_s_matrix_instructions(chip: str, element: str) -> None:
    name, *widths = MATRIX[chip][element]
    _, op = Product((256, 256, 256), "nt", element).kernel()
    texts = [disassemble(compiler(op)(Target.get(chip)).data)]
    if element == "f16":
        texts += [compiled(family, chip)[1] for family in ("convolution", "attention")]
    for text in texts:
        found = re.findall(rf"^\t{name} (.*?)\s*//", text, re.MULTILINE)
        assert found, name
        for operands in found:
            _, *sources = operands.split(", ")
            assert [registers(source) for source in sources[:2]] == widths


@pytest.mark.parametrize("chip", CHIPS)
def test_memory_is_read_and_written_in_128_bits(chip: str) -> None:
    wide = "dwordx4" if Target.get(chip).wave_size == 64 or chip.startswith("gfx10") else "b128"
    for family in ("product", "convolution", "rows", "pointwise", "broadcast", "gather of places"):
        _, text = compiled(family, chip)
        assert f"buffer_load_{wide}" in text, family
        assert f"buffer_store_{wide}" in text or family in ("product", "convolution"), family
    for family in ("product", "convolution", "attention"):
        reads = set(re.findall(r"\tds_(?:read|load)\w*", compiled(family, chip)[1]))
        assert {read.rpartition("_")[2] for read in reads} == {"b128"}, family


@pytest.mark.parametrize("chip", CHIPS)
def test_scatters_use_integer_atomics(chip: str) -> None:
    _, text = compiled("scatter", chip)
    atomics = set(re.findall(r"\t(\w*atomic\w*)", text))
    assert atomics
    assert not any(re.search("cmpswap|f32|f64|fadd|pk", name) for name in atomics)


@pytest.mark.slow
@pytest.mark.parametrize("chip", SIBLINGS)
@pytest.mark.parametrize(
    "program",
    ["contraction_run.py", "attention_run.py", "row_run.py", "element_run.py",
     "element_run.py movement"],
)  # fmt: skip
def test_kernels_run_on_a_chip_of_the_same_instructions(
    chip: str, program: str, tmp_path: Path
) -> None:
    run_on(chip, *program.split()[:1], tmp_path, *program.split()[1:])
