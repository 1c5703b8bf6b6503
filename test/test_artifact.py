"""The .mgx file: what goes in comes out, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.interface import Interface, Operand
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.signature import canonical_json
from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.artifact.writer import HEADER, MAGIC, VERSION
from mgx_mlir.errors import ArtifactError, TargetError, UsageError, UserError

GFX942 = Target.get("gfx942")


def weight(key: str, array: np.ndarray) -> Weight:
    return Weight(key, array.dtype, array.shape, data=array)


def example() -> Artifact:
    plan = Plan(
        (TensorSpec("x", "float32", (2, 3)),),
        (TensorSpec("y", "float32", (2, 3)),),
        4096,
        (
            Buffer("input", 24, index=0),
            Buffer("weight", 24, key="w"),
            Buffer("arena", 24, offset=256),
            Buffer("output", 24, index=0),
        ),
        (Step(0, (0, 1, 2), "Add_0"), Step(1, (2, 3), "Relu_1")),
    )
    kernels = (
        PortableKernel("k0_add", b"ML\xefR" + bytes(range(100)), (), ("Add_0",), (1, 0)),
        PortableKernel("k1_relu", b"ML\xefR" + bytes(50), ("bf16",), ("Relu_1",), (1, 0)),
    )
    weights = {
        "w": weight("w", np.arange(6, dtype=np.float32).reshape(2, 3)),
        "b": weight("b", np.arange(5).astype(ml_dtypes.bfloat16)),
        "none": weight("none", np.zeros((0, 4), np.int64)),
        "one": weight("one", np.array(True)),
    }
    pipelines = (("core", "builtin.module(mgx-normalize-ops)"),)
    return Artifact("net", plan, kernels, weights, {"mode": "default"}, pipelines)


def code(arch: str = "gfx942", content: bytes = b"\x7fELF code") -> CodeObject:
    launch = Launch("kernel_0", (4, 1, 1), (256, 1, 1), (Argument("input", 0),))
    return CodeObject(arch, content, (launch,), 256, {"kernel_0": {"vgpr": 5}})


def finalized() -> Artifact:
    return example().with_code_objects({"gfx942": [code(), code(content=b"\x7fELF other")]})


def same(a: Artifact, b: Artifact) -> None:
    assert a.to_json() == b.to_json()
    assert [k.bytecode for k in a.kernels] == [k.bytecode for k in b.kernels]
    assert a.code_objects == b.code_objects
    for key, array in a.weight_arrays().items():
        other = b.weight_arrays()[key]
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        assert array.tobytes() == other.tobytes()


# There and back -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Path, str])
@pytest.mark.parametrize("make", [example, finalized])
def test_file_holds_the_whole_artifact(
    make: Callable[[], Artifact], kind: type[Path] | type[str], tmp_path: Path
) -> None:
    path = kind(tmp_path / "net.mgx")
    make().save(path)
    same(Artifact.open(path), make())
    same(Artifact.from_bytes(make().to_bytes()), make())


def test_same_artifact_is_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "net.mgx"
    finalized().save(path)
    assert path.read_bytes() == finalized().to_bytes()
    assert Artifact.open(path).to_bytes() == finalized().to_bytes()


def test_weights_are_mapped_and_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "net.mgx"
    example().save(path)
    array = Artifact.open(path).weight_arrays()["w"]
    assert not array.flags.owndata
    assert not array.flags.writeable
    assert array.ctypes.data % 4096 == 0


def test_equal_bytes_are_stored_once() -> None:
    same_code = example().with_code_objects({"gfx942": [code(), code()]})
    sections = manifest_of(same_code.to_bytes())["sections"]
    hashes = [s["sha256"] for s in sections]
    assert len(hashes) == len(set(hashes))


def test_weights_can_stay_in_the_model_s_file(tmp_path: Path) -> None:
    file = tmp_path / "data" / "model.bin"
    file.parent.mkdir()
    file.write_bytes(bytes(100) + np.arange(6, dtype=np.float32).tobytes())
    beside = Weight("w", np.dtype(np.float32), (2, 3), file=file, offset=100)
    artifact = replace(example(), weights={**example().weights, "w": beside})
    path = tmp_path / "net.mgx"
    artifact.save(path, weights="beside")
    same(Artifact.open(path), example())
    assert Artifact.open(path).content_hash == example().content_hash
    file.write_bytes(bytes(110))
    with pytest.raises(ArtifactError, match="shorter"):
        Artifact.open(path).weight_arrays()
    file.write_bytes(bytes(200))
    with pytest.raises(ArtifactError, match="have changed"):
        Artifact.open(path).weight_arrays()
    file.unlink()
    with pytest.raises(ArtifactError, match="not there"):
        Artifact.open(path)


def test_turned_weights_can_stay_in_the_model_s_file(tmp_path: Path) -> None:
    stored = np.random.default_rng(0).standard_normal((300, 2, 260)).astype(np.float32)
    file = tmp_path / "model.bin"
    file.write_bytes(stored.tobytes())
    weights = WeightStore()
    weights.add(Weight("v", stored.dtype, stored.shape, file=file))
    once = weights.add_turned("v", (1, 2, 0))
    twice = weights.add_turned(once, (0, 2, 1))
    assert (weights.add_turned("v", (1, 2, 0)), weights[twice].order) == (once, (1, 0, 2))
    artifact = replace(example(), weights={**example().weights, **weights})
    path = tmp_path / "net.mgx"
    artifact.save(path, weights="beside")
    assert path.stat().st_size < stored.nbytes
    opened = Artifact.open(path)
    assert opened.content_hash == artifact.content_hash
    np.testing.assert_array_equal(opened.weights[once].array(), stored.transpose(1, 2, 0))
    np.testing.assert_array_equal(opened.weights[twice].array(), stored.transpose(1, 0, 2))
    artifact.save(path, weights="beside", version=(1, 0))
    assert path.stat().st_size > 2 * stored.nbytes, "readers of 1.0 know no order"
    np.testing.assert_array_equal(Artifact.open(path).weights[once].array(), weights[once].array())


def test_weights_of_one_key_and_two_orders_stay_apart() -> None:
    weights = WeightStore()
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    weights.add(Weight("w", values.dtype, values.shape, data=values))
    other = np.zeros((3, 2), np.float32)
    weights.add(Weight("w.10", other.dtype, other.shape, data=other))
    np.testing.assert_array_equal(weights[weights.add_turned("w", (1, 0))].array(), values.T)
    assert not weights["w.10"].array().any()


def test_weights_in_turn_are_put_together_when_they_are_read(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    file = tmp_path / "values"
    file.write_bytes(values.tobytes())
    weights = WeightStore()
    for number in range(2):
        weights.add(Weight(f"w{number}", np.dtype(np.float32), (3, 4), file, 48 * number))
    key = weights.add_alternating(["w0", "w1"], 0)
    assert weights[key].data is None
    assert weights.add_alternating(["w0", "w1"], 0) == key
    rows = values.transpose(1, 0, 2).reshape(6, 4)
    np.testing.assert_array_equal(weights[key].array(), rows)
    np.testing.assert_array_equal(weights[weights.add_turned(key, (1, 0))].array(), rows.T)
    columns = weights[weights.add_alternating(["w0", "w1"], 1)]
    np.testing.assert_array_equal(columns.array(), values.transpose(1, 2, 0).reshape(3, 8))
    assert b"".join(columns.chunks()) == columns.array().tobytes()
    weights.keep({key})
    np.testing.assert_array_equal(weights[key].array(), rows)


def test_weights_beside_must_lie_below_the_artifact(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(bytes(24))
    beside = Weight("w", np.dtype(np.float32), (2, 3), file=file)
    artifact = replace(example(), weights={**example().weights, "w": beside})
    (tmp_path / "sub").mkdir()
    with pytest.raises(UsageError, match="outside"):
        artifact.save(tmp_path / "sub" / "net.mgx", weights="beside")
    assert list((tmp_path / "sub").iterdir()) == []
    with pytest.raises(UsageError, match="inside"):
        artifact.save(tmp_path / "net.mgx", weights="elsewhere")


def test_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "net.mgx"
    example().save(path)
    before = path.read_bytes()
    gone = Weight("b", np.dtype(np.int8), (5,), file=tmp_path / "gone.bin")
    broken = replace(example(), weights={**example().weights, "b": gone})
    with pytest.raises(UserError, match="gone"):
        broken.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Its summary --------------------------------------------------------------------------------


def test_content_hash_is_of_the_program_alone() -> None:
    assert example().content_hash == finalized().content_hash
    assert example().content_hash == replace(example(), producer="another").content_hash
    assert example().content_hash != replace(example(), options={"mode": "max"}).content_hash
    # Defined in docs/artifact.md: the same on every machine.
    artifact = example()
    content = {
        "dialect": [1, 0],
        "kernels": [hashlib.sha256(k.bytecode).hexdigest() for k in artifact.kernels],
        "options": {"mode": "default"},
        "pipelines": [["core", "builtin.module(mgx-normalize-ops)"]],
        "plan": artifact.plan.to_json(),
        "weights": {
            key: hashlib.sha256(array.tobytes()).hexdigest()
            for key, array in artifact.weight_arrays().items()
        },
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert artifact.content_hash == hashlib.sha256(text.encode()).hexdigest()


def test_code_objects_are_found_by_target() -> None:
    artifact = finalized()
    assert artifact.has_code_objects(GFX942)
    assert artifact.code_objects_for(GFX942)[0] == code()
    with pytest.raises(TargetError, match=r"gfx1100.*gfx942.*mgx finalize"):
        artifact.code_objects_for(Target.get("gfx1100"))


def test_parts_must_fit_together() -> None:
    with pytest.raises(ArtifactError, match="kernel 1"):
        replace(example(), kernels=example().kernels[:1])
    with pytest.raises(ArtifactError, match="weight 'w'"):
        replace(example(), weights={})
    with pytest.raises(ArtifactError, match="1 of 2"):
        example().with_code_objects({"gfx942": [code()]})


def test_summary_and_json_tell_what_is_inside() -> None:
    text = finalized().summary()
    for word in (
        "net",
        "x: float32[2, 3]",
        "2 (2 distinct)",
        "bf16",
        "gfx942: 2",
        "mgx dialect 1.0",
    ):
        assert word in text
    assert json.loads(json.dumps(finalized().to_json()))["kernels"][0]["nodes"] == ["Add_0"]


# Damaged files -----------------------------------------------------------------------------


def manifest_of(data: bytes) -> dict[str, Any]:
    size = HEADER.unpack_from(data)[4]
    manifest: dict[str, Any] = json.loads(data[HEADER.size : HEADER.size + size])
    return manifest


def forged(change: Callable[[dict[str, Any]], Any], canonical: bool = True) -> bytes:
    """A file whose manifest was changed by someone who knows how to hash.

    The sections stay where they are: the manifest may not get longer.
    """
    data = finalized().to_bytes()
    size = HEADER.unpack_from(data)[4]
    manifest = manifest_of(data)
    change(manifest)
    text = canonical_json(manifest) if canonical else json.dumps(manifest).encode()
    grown = len(text) - size
    if grown > 0:
        for section in manifest["sections"]:
            if isinstance(section, dict) and isinstance(section.get("offset"), int):
                section["offset"] += 8192
        text = canonical_json(manifest) if canonical else json.dumps(manifest).encode()
        body = bytes(8192 + size - len(text)) + data[HEADER.size + size :]
    else:
        body = bytes(-grown) + data[HEADER.size + size :]
    total = HEADER.size + len(text) + len(body)
    digest = hashlib.sha256(text).digest()
    return HEADER.pack(MAGIC, *VERSION, HEADER.size, len(text), total, digest) + text + body


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """Puts the last of `path` where the others lead."""

    def change(manifest: dict[str, Any]) -> None:
        place: Any = manifest
        for step in path[:-2]:
            place = place[step]
        place[path[-2]] = path[-1]

    return change


def test_forging_is_what_the_tests_think_it_is() -> None:
    assert Artifact.from_bytes(forged(lambda manifest: None)).to_json() == finalized().to_json()
    longer = Artifact.from_bytes(forged(put("producer", "someone" * 9)))
    assert longer.producer == "someone" * 9


@pytest.mark.parametrize(
    "change",
    [
        put("sections", 0, "offset", 64),
        put("sections", 0, "offset", 1 << 40),
        put("sections", 0, "offset", -64),
        put("sections", 0, "bytes", 1 << 40),
        put("sections", 0, "bytes", 10**30),
        put("sections", 0, "sha256", "0" * 64),
        put("sections", 1, "offset", 1),
        put("sections", 0),
        put("kernels", 0, "section", 10**6),
        put("kernels", 0, "section", -1),
        put("kernels", 0, "section", 1),
        put("kernels", 0, "nodes", [1]),
        put("kernels", 0, "dialect", [1]),
        put("kernels", []),
        put("kernels", 0, None),
        put("code_objects", "gfx942", []),
        put("code_objects", "gfx942", 0, "arch", "gfx90a"),
        put("code_objects", "gfx942", 0, "section", 0),
        put("code_objects", "gfx942", 0, "launches", [{}]),
        put("code_objects", []),
        put("weights", 0, "shape", [2, 4]),
        put("weights", 0, "shape", [1 << 40, 1 << 40]),
        put("weights", 0, "shape", [-2, -3]),
        put("weights", 0, "shape", [1] * 100),
        put("weights", 0, "dtype", "float128"),
        put("weights", 0, "dtype", "__class__"),
        put("weights", 0, "dtype", "object"),
        put("weights", 0, "key", "b"),
        put("weights", 0, "sha256", 5),
        put("weights", 0, "section", 0),
        put("plan", "arena_bytes", 1),
        put("plan", "steps", 0, "kernel", 7),
        put("plan", "buffers", 1, "key", "nothing"),
        put("plan", "buffers", 1, "bytes", 28),
        put("plan", None),
        put("pipelines", [["core"]]),
        put("options", []),
        put("options", {"mode": "max"}),
        put("name", 1),
        put("content_hash", "0" * 64),
    ],
    ids=lambda change: "-".join(str(cell.cell_contents) for cell in change.__closure__)[:60],
)
def test_forged_manifest_is_refused(change: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(ArtifactError, match=r"\w"):
        Artifact.from_bytes(forged(change)).weight_arrays()


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret", "a/../../secret", "", "a\0b", "c:\\x", "link/secret"]
)
def test_weights_outside_of_the_folder_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(24))
    (folder / "link").symlink_to(tmp_path)

    def change(manifest: dict[str, Any]) -> None:
        del manifest["weights"][0]["section"]
        manifest["weights"][0].update(file=name, offset=0)

    path = folder / "net.mgx"
    path.write_bytes(forged(change))
    with pytest.raises(ArtifactError, match=r"outside|impossible"):
        Artifact.open(path)
    with pytest.raises(ArtifactError, match="as a file"):
        Artifact.from_bytes(path.read_bytes())


def test_trusted_artifact_may_name_files_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "w.bin"
    file.write_bytes(np.arange(6, dtype=np.float32).tobytes())
    (tmp_path / "folder").mkdir()

    def change(manifest: dict[str, Any]) -> None:
        del manifest["weights"][0]["section"]
        manifest["weights"][0].update(file=str(file), offset=0)

    path = tmp_path / "folder" / "net.mgx"
    path.write_bytes(forged(change))
    same(Artifact.open(path, allow_absolute=True), finalized())


def test_manifest_has_one_form_only() -> None:
    with pytest.raises(ArtifactError, match="canonical"):
        Artifact.from_bytes(forged(lambda manifest: None, canonical=False))


def test_every_flipped_byte_is_found_or_harmless() -> None:
    data = finalized().to_bytes()
    want = finalized()
    manifest_end = HEADER.size + HEADER.unpack_from(data)[4]
    assert manifest_end > 1000
    for position in range(manifest_end + 256):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        try:
            read = Artifact.from_bytes(bytes(damaged))
            read.weight_arrays()
        except ArtifactError:
            continue
        assert position >= manifest_end
        same(read, want)


def test_every_damaged_section_is_found() -> None:
    data = finalized().to_bytes()
    for section in manifest_of(data)["sections"]:
        for position in {section["offset"], section["offset"] + section["bytes"] - 1}:
            if section["bytes"]:
                damaged = bytearray(data)
                damaged[position] ^= 0x40
                with pytest.raises(ArtifactError, match="hash"):
                    Artifact.from_bytes(bytes(damaged)).weight_arrays()


def test_file_cut_short_or_grown_is_refused() -> None:
    data = finalized().to_bytes()
    for size in [*range(200), *range(200, len(data), 97), len(data) - 1]:
        with pytest.raises(ArtifactError, match=r"damaged|artifact"):
            Artifact.from_bytes(data[:size])
    with pytest.raises(ArtifactError, match="bytes and has"):
        Artifact.from_bytes(data + b"\0")


@pytest.mark.parametrize("version", [(1, 2), (2, 0), (0, 9)])
def test_other_versions_say_both_versions(version: tuple[int, int]) -> None:
    data = bytearray(example().to_bytes())
    struct.pack_into("<HH", data, len(MAGIC), *version)
    with pytest.raises(ArtifactError, match=rf"version {version[0]}.{version[1]};.*reads 1.0"):
        Artifact.from_bytes(bytes(data))


def test_header_with_huge_sizes_allocates_nothing() -> None:
    data = bytearray(example().to_bytes())
    struct.pack_into("<Q", data, 16, 1 << 62)
    with pytest.raises(ArtifactError, match="impossible sizes"):
        Artifact.from_bytes(bytes(data))


def test_deep_json_is_refused() -> None:
    text = b"[" * 100_000 + b"]" * 100_000
    digest = hashlib.sha256(text).digest()
    total = HEADER.size + len(text)
    data = HEADER.pack(MAGIC, *VERSION, HEADER.size, len(text), total, digest) + text
    with pytest.raises(ArtifactError, match=r"no JSON|canonical"):
        Artifact.from_bytes(data)


def test_what_is_no_file_is_an_artifact_error(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="No such file"):
        Artifact.open(tmp_path / "nothing.mgx")
    with pytest.raises(ArtifactError, match="cannot be opened"):
        Artifact.open(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(ArtifactError, match="too short"):
        Artifact.open(tmp_path / "empty")
    (tmp_path / "model.onnx").write_bytes(os.urandom(200))
    with pytest.raises(ArtifactError, match=r"model.onnx: no .mgx artifact"):
        Artifact.open(tmp_path / "model.onnx")


def taking(*sizes: int) -> Interface:
    """A kernel of f32 tensors of so many bytes, of which the last is its result."""
    *inputs, output = (Operand("float32", size) for size in sizes)
    return Interface(tuple(inputs), (output,))


def test_launch_that_gets_too_little_memory_is_refused() -> None:
    """Whoever wrote the plan, kernels stay inside of what they are given."""
    counts = [(24, 24, 24), (24, 24)]  # the bytes of the arguments of the example's two launches
    codes = [replace(code(), interface=taking(*each)) for each in counts]
    sound = example().with_code_objects({"gfx942": codes})
    assert Artifact.from_bytes(sound.to_bytes()).code_objects == sound.code_objects
    faults = {
        (24, 24, 25): "gives its kernel 24 bytes for output 0, which takes 25",
        (25, 24, 24): "gives its kernel 24 bytes for input 0, which takes 25",
        (24, 24): "has 3 arguments; its kernel reads 1 and writes 1",
        (24, 24, 24, 0): "has 3 arguments; its kernel reads 3 and writes 1",
    }
    for wrong, fault in faults.items():
        with pytest.raises(ArtifactError, match=rf"the step of 'Add_0' {fault}"):
            example().with_code_objects(
                {"gfx942": [replace(codes[0], interface=taking(*wrong)), codes[1]]}
            )
