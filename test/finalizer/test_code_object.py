"""Records of code objects: their JSON form, and what a code object's note says."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.artifact.interface import Interface, Operand
from mgx_mlir.machine.amdgpu_metadata import _Msgpack, code_object_metadata, kernel_stats

CODE = CodeObject(
    "gfx1100",
    b"\x7fELF and more",
    (
        Launch(
            "f",
            (3, 2, 1),
            (256, 1, 1),
            (Argument("input", 1), Argument("scratch", 512), Argument("counters", 6)),
        ),
    ),
    1024,
    {"f": {"vgpr": 12}},
    "mgx.dot: tile 64x64x64",
    Interface((Operand("float32", 24),), (Operand("int64", 0, (0,)),), {"n": (1, None)}),
)


def test_json_form_and_bytes_give_the_record_back() -> None:
    assert CodeObject.from_json(CODE.to_json(), CODE.data) == CODE
    assert pickle.loads(pickle.dumps(CODE)) == CODE
    assert "ELF" not in repr(CODE)


def test_launches_of_no_work_groups_are_none() -> None:
    """Readers of files refuse them."""
    none = Launch("g", (0, 1, 1), (256, 1, 1), ())
    found = replace(CODE, launches=(none, *CODE.launches))
    assert found == CODE


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("arch",), 3),
        (("bytes",), 4),
        (("why",), 4),
        (("interface",), "24"),
        (("interface", "inputs"), None),
        (("interface", "inputs", 0), ["float32"]),
        (("interface", "inputs", 0, 0), "float31"),
        (("interface", "inputs", 0, 1), -1),
        (("interface", "outputs", 0, 2), [1]),
        (("interface", "dims", "n"), [None, 4]),
        (("launches", 0, "grid", 0), 1 << 40),
        (("launches", 0, "block", 0), 2048),
        (("sha256",), "00"),
        (("launches",), {}),
        (("launches", 0), "f"),
        (("launches", 0, "function"), None),
        (("launches", 0, "grid"), [1, 1]),
        (("launches", 0, "grid"), [1, 1, 0]),
        (("launches", 0, "block"), [1, True, 1]),
        (("launches", 0, "block"), [1, -1, 1]),
        (("launches", 0, "arguments"), None),
        (("launches", 0, "arguments", 0), ["elsewhere", 0]),
        (("launches", 0, "arguments", 0), ["input", -1]),
        (("launches", 0, "arguments", 0), ["input", 1 << 70]),
        (("scratch_bytes",), -1),
        (("scratch_bytes",), 1.5),
        (("stats",), []),
        (("stats", "f"), {"vgpr": "many"}),
    ],
)
def test_json_of_another_form_is_refused(path: tuple[Any, ...], value: Any) -> None:
    record = copy.deepcopy(CODE.to_json())
    place: Any = record
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=r"\w"):
        CodeObject.from_json(record, CODE.data)


def test_msgpack_types() -> None:
    data = bytes.fromhex(
        "86 a161 01 a162 ff a163 93c0c2c3 a164 cd0100 a165 cb3ff8000000000000 a166"
    )
    data += bytes.fromhex("d9 03 78797a".replace(" ", ""))
    assert _Msgpack(data).read() == {
        "a": 1, "b": -1, "c": [None, False, True], "d": 256, "e": 1.5, "f": "xyz",
    }  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), bytes(100)])
def test_what_is_no_code_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="code object"):
        code_object_metadata(data)
    with pytest.raises(ValueError, match="code object"):
        kernel_stats(data)
