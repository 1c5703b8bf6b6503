"""Files that are no artifacts are refused, by libmgx and by the package, which reads through it."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mgx_mlir.artifact.record import Artifact as PythonArtifact
from mgx_mlir.artifact.writer import HEADER, MAGIC, VERSION
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import MgxError
from test.fuzz import mutate
from test.fuzz.artifacts.damage import damaged
from test.golden.files import ARTIFACTS
from test.libmgx.library import Artifact, Device, LibraryError, Program, library


def answer(read: Callable[[], Any]) -> str:
    """The kind of the error that reading gives, 'fine' for none."""
    try:
        read()
    except MgxError as error:
        return type(error).__name__.removesuffix("Error")
    except LibraryError as error:
        assert len(error.text) > 10
        return error.kind
    return "fine"


def check_alike(path: Path, data: bytes, what: str) -> str:
    path.write_bytes(data)
    wanted = answer(lambda: PythonArtifact.open(path))
    assert answer(lambda: Artifact(path)) == wanted, what
    return wanted


def check_mutants(files: dict[str, bytes], path: Path, numbers: range) -> set[str]:
    """Other numbers in plans, and any other values in all of the manifest, in turn."""
    seen = set()
    for number in numbers:
        rng = random.Random(number)
        program = rng.choice(list(files))
        what = f"{number} {program}"
        if number % 2:
            manifest, body = mutate.split(files[program])
            what += damaged(manifest, rng)
            seen.add(check_alike(path, mutate.joined(manifest, body), what))
        else:
            seen.add(check_alike(path, mutate.artifact(files[program], rng), what))
    return seen


def test_changed_plans_get_the_python_reader_s_answers(
    files: dict[str, bytes], folder: Path
) -> None:
    assert check_mutants(files, folder / "mutant.mgx", range(100)) == {"fine", "Artifact"}


@pytest.mark.slow
def test_thousands_of_changed_plans(all_files: dict[str, bytes], folder: Path) -> None:
    check_mutants(all_files, folder / "mutant.mgx", range(1000, 9000))


def test_damaged_bytes_get_the_python_reader_s_answers(
    files: dict[str, bytes], folder: Path
) -> None:
    data = files["search"]
    path = folder / "damaged.mgx"
    rng = random.Random(0)
    places = [*range(64), *rng.sample(range(64, len(data)), 20)]
    for place in places:
        for value in (data[place] ^ 1, data[place] ^ 0x80):
            mutant = data[:place] + bytes([value]) + data[place + 1 :]
            check_alike(path, mutant, f"byte {place} is {value}")
    for size in (0, 1, 63, 64, 65, 200, len(data) - 1):
        check_alike(path, data[:size], f"cut to {size} bytes")
    check_alike(path, data + b"\0", "grown")


def _other_forms(text: str) -> list[str]:
    return [
        text.replace(",", ", ", 1),
        text.replace('"name"', '"n\\u0061me"', 1),
        text.replace("0", "-0", 1),
        text.replace("1", "1.0", 1),
        text.replace("{", '{"":NaN,', 1),
        text.replace("{", '{"":1e999,', 1),
        text.replace("{", '{"":1,"":1,', 1),
        text.replace("{", '{"":0.50,', 1),
        text + " ",
        text[:-1],
        text.replace("{", '{"":' + "[" * 100000 + "]" * 100000 + ",", 1),
    ]


def test_a_manifest_has_one_form(files: dict[str, bytes], folder: Path) -> None:
    manifest, body = mutate.split(files["search"])
    path = folder / "form.mgx"
    data = mutate.joined(manifest, body)
    size = int.from_bytes(data[16:24], "little")
    for form in _other_forms(data[64 : 64 + size].decode()):
        text, rest = form.encode(), data[64 + size :]
        total, digest = 64 + len(text) + len(rest), hashlib.sha256(text).digest()
        header = HEADER.pack(MAGIC, *VERSION, 64, len(text), total, digest)
        assert check_alike(path, header + text + rest, form[:60]) == "Artifact"


@pytest.mark.parametrize(
    "options",
    [
        {"ä": ["\x7f", "\ud800", "\U0001f600", '"\\/\b\f\n\r\t\x01'], "a": {}},
        {"a": [1e-5, 0.1, 1e16, 1e22, 123456789012345680.0, -0.0, 5e-324, 1.5, 1e15, 0.0001]},
        {"a": [0, -1, 10**40, True, None]},
    ],
    ids=["texts", "floats", "others"],
)
def test_any_canonical_manifest_is_read(
    options: Any, files: dict[str, bytes], folder: Path
) -> None:
    """The content hash covers the options: it is that of Python's text of them."""
    manifest, body = mutate.split(files["search"])
    manifest["options"] = options
    path = folder / "canonical.mgx"
    assert check_alike(path, mutate.joined(manifest, body), "options") == "fine"


@pytest.mark.parametrize("name", ["", "nothing", "/dev/null"])
def test_files_that_are_none(name: str, folder: Path) -> None:
    assert answer(lambda: Artifact(folder / name)) == "Artifact"
    assert answer(lambda: PythonArtifact.open(folder / name)) == "Artifact"


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret", "a/../../secret", "", "c:\\x"])
def test_weights_outside_of_the_folder_are_refused(
    name: str, files: dict[str, bytes], folder: Path
) -> None:
    manifest, body = mutate.split(files["weights beside"])
    for weight in manifest["weights"]:
        if "file" in weight:
            weight["file"] = name
    said = check_alike(folder / "outside.mgx", mutate.joined(manifest, body), name)
    assert said == "Artifact"


def test_weights_whose_bytes_have_changed_are_refused(
    files: dict[str, bytes], folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "beside.mgx"
    path.write_bytes(files["weights beside"])
    data = bytearray((folder / "weights.bin").read_bytes())
    data[100] ^= 1
    (tmp_path / "weights.bin").write_bytes(data)
    with pytest.raises(LibraryError, match=r"^Artifact: .*bytes have changed"):
        Program(Artifact(path), Device("cpu"), trust_code=1)
    (tmp_path / "weights.bin").write_bytes(data[:50])
    with pytest.raises(LibraryError, match=r"^Artifact: .*shorter"):
        Program(Artifact(path), Device("cpu"), trust_code=1)


def test_every_golden_artifact_opens() -> None:
    for path in ARTIFACTS:
        artifact = Artifact(path)
        python = PythonArtifact.open(path)
        assert artifact.info.content_hash.decode() == python.content_hash


def test_element_types_are_those_of_the_table() -> None:
    """A header's and a source's table, which only ever grow with Python's."""
    root = Path(__file__).parents[2] / "libmgx"
    header = (root / "include/mgx.h").read_text()
    source = (root / "src/elements.cpp").read_text()
    for row in ELEMENTS:
        assert f" = {row.onnx}" in header
        assert f'{{"{row.numpy}", ' in source
    assert library().mgx_interface() == 1
