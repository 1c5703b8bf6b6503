"""The contraction family: what its kernels look like, compute, and leave to others."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from contraction_kernels import Product
from convolution_kernels import Convolution
from emulated import run_on, shares

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object, disassemble
from mgx_mlir.codegen.gpu.builders.program import Generated
from mgx_mlir.codegen.gpu.builders.units import Unit, unit_for
from mgx_mlir.codegen.gpu.families.contraction import constraints, cost
from mgx_mlir.codegen.gpu.families.contraction.constraints import schedule_refusal
from mgx_mlir.codegen.gpu.families.contraction.convolution import stored_along
from mgx_mlir.codegen.gpu.families.contraction.kernel import contraction_program, product_of_terms
from mgx_mlir.codegen.gpu.families.contraction.recipes.resident import Resident
from mgx_mlir.codegen.gpu.families.contraction.space import schedules
from mgx_mlir.codegen.gpu.kernel import compiler
from mgx_mlir.codegen.problem.match import match_contraction
from mgx_mlir.codegen.problem.problem import Image

EMULATED = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201")
SHAPES = (
    Product((4096, 4096, 4096), "nt"),
    Product((4096, 4096, 4096), "nn", epilogue="bias"),
    Product((384, 768, 768), "nt", "bf16", epilogue="gelu"),
    Product((136, 1000, 2048), "tn", epilogue="residual"),
    Product((128, 128, 64), "ht", batch=(2, 12)),
    Product((512, 512, 512), "nt", "i8"),
)

IMAGES = (
    Convolution((32, 64, 56, 56), 64, (3, 3), pads=(1, 1, 1, 1), epilogue="relu"),
    Convolution((1, 256, 14, 14), 512, (3, 3), (2, 2), pads=(1, 1, 1, 1), element="bf16"),
    Convolution((32, 64, 56, 56), 64, (3, 3), pads=(1, 1, 1, 1), native=True, epilogue="relu"),
    Convolution((1, 64, 56, 56), 64, (3, 3), pads=(1, 1, 1, 1), native=True, epilogue="add"),
)


@pytest.mark.parametrize(("chip", "share"), shares(EMULATED, 3))
def test_products_equal_those_of_higher_precision(chip: str, share: str, tmp_path: Path) -> None:
    run_on(chip, "contraction_run.py", tmp_path, share)


@pytest.mark.slow
@pytest.mark.parametrize("chip", EMULATED)
def test_products_of_any_shape_equal_those_of_higher_precision(chip: str, tmp_path: Path) -> None:
    run_on(chip, "contraction_run.py", tmp_path, "60")


def listing(product: Product | Convolution, chip: str) -> tuple[dict[str, int], list[str]]:
    """Figures and instructions of a product's one function."""
    stats, text = disassembly(product, chip)
    return stats, re.findall(r"^\t(\w+)", text, re.MULTILINE)


def disassembly(product: Product | Convolution, chip: str) -> tuple[dict[str, int], str]:
    """Figures of the function that multiplies, and its instructions with their places."""
    target = Target.get(chip)
    _, kernel = product.kernel()
    made = contraction_program(kernel, target)
    assert isinstance(made, Generated), made
    program = made.program
    code = code_object(program, target)
    text = disassemble(code.data)
    # The function with LDS multiplies; one may pack operands first, one add parts after it.
    (name,) = (n for n, stats in code.stats.items() if stats["lds_bytes"])
    return dict(code.stats[name]), text.partition(f"<{name}>:")[2].partition(">:")[0]


def longest_loop(text: str) -> list[str]:
    """Names of the instructions from a branch's target back to it, where these are most."""
    found = re.findall(r"^\t(\w+)(.*?)// ([0-9A-F]+):", text, re.MULTILINE)
    places = [int(place, 16) for _, _, place in found]
    loops = []
    for number, (name, operands, _) in enumerate(found):
        if name.startswith("s_cbranch"):
            words = int(operands) - (int(operands) >> 15 << 16)
            target = places[number] + 4 * (words + 1)
            if target <= places[number]:
                loops.append([x for x, _, _ in found[places.index(target) : number + 1]])
    return max(loops, key=len)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("product", [*SHAPES, *IMAGES], ids=lambda product: product.name)
def test_matrix_kernels_have_no_spills_and_wide_accesses_only(
    product: Product | Convolution, chip: str
) -> None:
    stats, instructions = listing(product, chip)
    assert stats["vgpr_spills"] == stats["sgpr_spills"] == stats["scratch_bytes"] == 0
    matrix = "v_mfma" if chip == "gfx942" else "v_wmma"
    assert any(name.startswith(matrix) for name in instructions)
    reads = {name for name in instructions if re.match("ds_(read|load)", name)}
    assert reads <= {"ds_read_b128", "ds_load_b128"}
    writes = {name for name in instructions if re.match("ds_(write|store)", name)}
    # Small tiles of turned operands may be worth writes of 4 bytes.
    assert all(re.search("_b(32|64|128)$", name) for name in writes)
    loads = {name for name in instructions if name.startswith("buffer_load")}
    assert loads & {f"buffer_load_{x}" for x in ("b64", "b128", "dwordx2", "dwordx4")}
    assert not any(name.startswith("scratch_") for name in instructions)


FIRST = (
    Convolution((32, 3, 224, 224), 64, (7, 7), (2, 2), pads=(3,) * 4, native=True, wide=True),
    Convolution((1, 3, 224, 224), 64, (7, 7), (2, 2), pads=(3,) * 4, wide=True, epilogue="relu"),
    Convolution((1, 3, 224, 224), 32, (3, 3), (2, 2), pads=(1,) * 4, native=True, wide=True),
    # An f32 input of an f16 model.
    Convolution(
        (1, 3, 224, 224), 64, (7, 7), (2, 2), pads=(3,) * 4, prologue="cast", wide=True,
        epilogue="relu",
    ),
)  # fmt: skip


@pytest.mark.parametrize("chip", ["gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("image", FIRST, ids=lambda image: image.name)
def test_a_first_layer_is_one_function_that_spills_nothing(image: Convolution, chip: str) -> None:
    _, kernel = image.kernel()
    made = contraction_program(kernel, Target.get(chip))
    assert isinstance(made, Generated) and "pixels of 4 in LDS" in made.schedule
    program = made.program
    assert len(program.launches) == 1 and program.scratch_bytes == 0
    stats, instructions = listing(image, chip)
    assert stats["vgpr_spills"] == stats["sgpr_spills"] == stats["scratch_bytes"] == 0
    accesses = [name for name in instructions if re.match("ds_(read|load|write|store)", name)]
    assert all(re.search("_b(64|128)$", name) for name in accesses)
    loads = {name for name in instructions if name.startswith("buffer_load")}
    wide = {f"buffer_load_{x}" for x in ("b64", "b128", "dwordx2", "dwordx4")}
    assert loads <= wide if not image.epilogue else loads & wide


@pytest.mark.parametrize(
    ("product", "chip", "most"),
    [
        (SHAPES[0], "gfx942", 1.6),
        (SHAPES[1], "gfx942", 1.8),
        (SHAPES[0], "gfx1100", 100 / 32),
        # 120 of the whole kernel, with what is around the loop.
        (Product((4096, 4096, 4096), "nn"), "gfx1100", 116.5 / 32),
        # Tiles of 64x64; those of 128x128 are as fast by the estimate, with 96.
        (Product((4096, 4096, 4096), "nn", "i8"), "gfx1100", 129 / 32),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_large_products_spend_their_instructions_on_matrix_cores(
    product: Product, chip: str, most: float
) -> None:
    _, text = disassembly(product, chip)
    loop = longest_loop(text)
    matrix = "v_mfma" if chip == "gfx942" else "v_wmma"
    assert len(loop) <= most * sum(name.startswith(matrix) for name in loop)


def test_the_same_kernel_gives_the_same_bytes() -> None:
    product = SHAPES[1]
    _, kernel = product.kernel()
    compile_for = compiler(kernel)
    target = Target.get("gfx942")
    assert compile_for(target).data == compile_for(target).data


# Lanes that one phase of a 128-bit read serves, in a wave's first 32; writes: 8 neighbours.
PHASES = (
    (0, 1, 2, 3, 20, 21, 22, 23),
    (8, 9, 10, 11, 28, 29, 30, 31),
    (4, 5, 6, 7, 16, 17, 18, 19),
    (12, 13, 14, 15, 24, 25, 26, 27),
)


def unit(chip: str, element: str) -> Unit:
    found = unit_for(Target.get(chip), element, "f32")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("product", "chip", "reason"),
    [
        (Product((64, 64, 4)), "gfx942", "K = 4 is below 8"),
        (Product((1, 1, 64)), "gfx942", "one element a matrix"),
        (Product((64, 64, 64), element="f64"), "gfx1030", "no instruction for f64 in f64"),
        (Product((64, 64, 64), element="ui8"), "gfx942", "no instruction for ui8 in i32"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_refusals_say_why_and_leave_the_kernel_to_the_generic_path(
    product: Product | Convolution, chip: str, reason: str
) -> None:
    _, kernel = product.kernel()
    code = compiler(kernel)(Target.get(chip))
    assert reason in code.why
    assert code.why.endswith("generic path")
    assert code.launches


def test_a_schedule_that_spills_gives_way_to_one_with_fewer_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An estimate far too low: tiles are chosen that no chip has registers for.
    monkeypatch.setitem(constraints._LIMITS, "fma", 400)
    monkeypatch.setattr(cost, "_legal", cost._legal.__wrapped__)
    _, kernel = Product((4096, 4096, 4096), "nn", "f32").kernel()
    code = compiler(kernel)(Target.get("gfx1030"))
    first, second = code.why.split("; ")
    assert re.fullmatch(r"mgx\.dot: tile .*, fma of f32 would spill registers", first)
    assert re.fullmatch(r"mgx\.dot: tile .*, fma of f32", second)
    assert not any(stats["vgpr_spills"] for stats in code.stats.values())


@pytest.mark.parametrize("element", ["i8", "ui8"])
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100", "gfx1200", "gfx1201"])
def test_products_of_bytes_with_a_long_k_spill_nothing(chip: str, element: str) -> None:
    if element == "ui8" and chip == "gfx942":
        pytest.skip("its instructions take signed bytes alone")
    _, kernel = Product((128, 768, 3072), "nt", element, epilogue="residual").kernel()
    code = compiler(kernel)(Target.get(chip))
    assert re.fullmatch(r"mgx\.quant_dot: tile .*, (mfma|wmma) of u?i8", code.why)
    assert not any(stats["vgpr_spills"] for stats in code.stats.values())


def test_waves_that_share_k_count_on_their_share_of_registers() -> None:
    _, kernel = Product((128, 768, 3072), "nt", "i8").kernel()
    target, distances = Target.get("gfx1201"), []
    for share in (1.0, 0.5):
        made = contraction_program(kernel, replace(target, register_share=share))
        assert isinstance(made, Generated)
        distances += re.findall(r"share k .* distance (\d+)", made.schedule)
    assert distances == ["6", "2"]


def test_chosen_schedule_is_told() -> None:
    _, kernel = SHAPES[0].kernel()
    assert re.fullmatch(
        r"mgx\.dot: tile 224x256x32, \dx\d waves, prefetch distance 1, mfma of f16",
        compiler(kernel)(Target.get("gfx942")).why,
    )


@pytest.mark.parametrize(
    "chip", [name for name in Target.names() if Target.get(name).kind == "gpu"]
)
def test_every_chip_has_a_schedule_for_f16(chip: str) -> None:
    target = Target.get(chip)
    found = unit(chip, "f16")
    assert any(not schedule_refusal(s, found, target) for s in schedules(found.kind))


@pytest.mark.parametrize(
    "chip", [name for name in Target.names() if Target.get(name).kind == "gpu"]
)
@pytest.mark.parametrize("element", ["i8", "f8E4M3FN", "f8E5M2FNUZ"])
def test_every_chip_multiplies_bytes(chip: str, element: str) -> None:
    """By its own instructions where it has them; floats of 8 bits by those on bf16 else."""
    _, kernel = Product((256, 256, 256), "nt", element).kernel()
    code = compiler(kernel)(Target.get(chip))
    assert "generic path" not in code.why


def test_convolutions_of_one_channel_a_group_are_plain_sums() -> None:
    """Vectors from memory, no LDS, and filters in scalar registers where images are large."""
    image = Convolution((2, 8, 112, 112), 8, (3, 3), pads=(1,) * 4, group=8, element="f32")
    _, kernel = image.kernel()
    code = compiler(kernel)(Target.get("gfx942"))
    assert code.why == "mgx.convolution: 8x4 results a thread"
    assert not code.stats["k_0"]["lds_bytes"]
    instructions = re.findall(r"^\t(\w+)", disassemble(code.data), re.MULTILINE)
    assert "buffer_load_dwordx4" in instructions
    assert "buffer_store_dwordx4" in instructions
    assert not any(name.startswith("global_load") for name in instructions)


def test_a_first_convolution_of_one_channel_converts_its_pixels() -> None:
    """An f32 input of an f16 model takes no launch that packs it."""
    _, kernel = Convolution((1, 1, 8, 8), 16, (3, 3), pads=(1,) * 4, prologue="cast").kernel()
    code = compiler(kernel)(Target.get("gfx942"))
    assert code.why == "mgx.convolution: 4x1 results a thread"
    assert len(code.launches) == 1 and code.launches[0].grid == (1, 1, 1)


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("window", [3, 7])
def test_depthwise_convolutions_read_channels_in_vectors(
    chip: str, element: str, window: int
) -> None:
    """All reads of a pixel's windows are on their way before the first is used."""
    pads = (window // 2,) * 4
    image = Convolution(
        (32, 96, 56, 56), 96, (window, window), (), (), pads, 96, element, "relu", native=True
    )
    _, kernel = image.kernel()
    code = compiler(kernel)(Target.get(chip))
    assert re.fullmatch(r"mgx\.convolution: \d channels of \dx\d pixels a thread", code.why)
    (stats,) = code.stats.values()
    assert not stats["lds_bytes"] and not stats["scratch_bytes"] and not stats["vgpr_spills"]
    instructions = re.findall(r"^\t(\w+)", disassemble(code.data), re.MULTILINE)
    loads = {name for name in instructions if name.startswith("buffer_load")}
    vectors = ["b128", "dwordx4", "b64", "dwordx2", *(["b32", "dword"] if element == "f16" else [])]
    assert loads <= {f"buffer_load_{x}" for x in vectors}
    (first, *_) = (i for i, name in enumerate(instructions) if re.match("v_(pk_)?fma", name))
    assert sum(name.startswith("buffer_load") for name in instructions[:first]) >= 2 * window


def test_convolutions_read_images_with_channels_last_where_they_are_stored() -> None:
    """A packing function comes first only for what is not stored so."""
    stored = Convolution((64, 64, 32, 32), 64, (3, 3), last=True)
    padded = Convolution((64, 64, 32, 32), 64, (3, 3), pads=(1, 1, 1, 1), last=True)
    first = Convolution((64, 64, 32, 32), 64, (3, 3))
    functions = []
    for image in (stored, padded, first):
        _, kernel = image.kernel()
        made = contraction_program(kernel, Target.get("gfx942"))
        assert isinstance(made, Generated), made
        program = made.program
        functions.append(len(program.launches))
        inputs = {a.index for a in program.launches[0].arguments if a.kind == "input"}
        assert inputs == {0, 1}
    assert functions == [1, 1, 2]


def test_pixels_of_a_block_meet_no_bank_twice() -> None:
    for channels in (32, 64, 96, 128):
        found = resident_of(Convolution((1, channels, 8, 8), 16, (3, 3), native=True), "gfx942")
        for phase in PHASES:
            starts = [(lane % 16 * found.pixel + lane // 16 * 8) * 2 // 4 for lane in phase]
            assert len({(start + i) % 32 for start in starts for i in range(4)}) == 32


def resident_of(convolution: Convolution, chip: str) -> Resident:
    _, kernel = convolution.kernel()
    match = match_contraction(kernel)
    assert match is not None and isinstance(match.problem.b, Image)
    target = Target.get(chip)
    unit = unit_for(target, convolution.element, "f32")
    product = product_of_terms(match)
    assert unit is not None and product is not None
    return Resident(stored_along(product), match.problem.b, unit, target, 2, 8)


def test_few_rows_are_read_where_columns_lie_side_by_side() -> None:
    """One launch, 16 bytes a read, and nothing of B in LDS."""
    _, kernel = Product((1, 4096, 4096), "nn").kernel()
    code = compiler(kernel)(Target.get("gfx942"))
    assert code.why == "mgx.dot: 32 columns a block of 8 waves, 8 rows a lane"
    assert len(code.launches) == 1
    loop = longest_loop(disassemble(code.data))
    assert loop.count("buffer_load_dwordx4") >= 8
    assert not any(name.startswith("ds_") for name in loop)


@pytest.mark.parametrize(
    ("chip", "name"),
    [("gfx942", "v_dot4c_i32_i8"), ("gfx1030", "v_dot4c_i32_i8"), ("gfx1100", "v_dot4_i32_iu8")],
)
def test_few_rows_of_bytes_multiply_four_at_a_time(chip: str, name: str) -> None:
    """One instruction for four products, and 16 bytes of each column a read."""
    _, kernel = Product((1, 4096, 4096), "nt", "i8").kernel()
    code = compiler(kernel)(Target.get(chip))
    assert "columns a wave, 16 elements a lane" in code.why
    names = re.findall(r"^\t(\w+)", disassemble(code.data), re.MULTILINE)
    products = sum(x.startswith(name) for x in names)
    assert products and products % 4 == 0  # four registers of each column
    assert not any(x.startswith(("v_mfma", "v_wmma")) for x in names)


@pytest.mark.parametrize(("depth", "lanes"), [(192, 4), (320, 8)])
def test_lanes_of_a_short_row_read_less_than_16_bytes(depth: int, lanes: int) -> None:
    """Halves have as many busy lanes as f32 then, and no tile that waits for its rows."""
    _, kernel = Product((1, 192, depth), "nt").kernel()
    code = compiler(kernel)(Target.get("gfx942"))
    assert f"1 columns a wave, {lanes} elements a lane" in code.why


@pytest.mark.parametrize("shape", [(1, 1000, 192), (1, 192, 768), (1, 256, 256)])
def test_small_products_of_one_row_take_no_tiles(shape: tuple[int, int, int]) -> None:
    """Halves too: matrix cores would multiply rows that are not there."""
    for element in ("f16", "bf16", "f32"):
        _, kernel = Product(shape, "nn", element).kernel()
        code = compiler(kernel)(Target.get("gfx942"))
        assert len(code.launches) == 1 and "tile" not in code.why, code.why


@pytest.mark.parametrize("batch", [1, 32])
def test_images_with_channels_last_are_read_where_they_lie(batch: int) -> None:
    convolution = Convolution((batch, 64, 56, 56), 64, (3, 3), pads=(1, 1, 1, 1), native=True)
    _, kernel = convolution.kernel()
    made = contraction_program(kernel, Target.get("gfx942"))
    assert isinstance(made, Generated), made
    assert len(made.program.launches) == 1 and not made.program.scratch_bytes
    assert ("pixels in LDS" in made.schedule) == (batch == 1)
