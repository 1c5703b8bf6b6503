"""A kernel cache that cannot be written is said once; entries that are no files are passed by."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import mgx_mlir
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.finalizer import cache as module
from mgx_mlir.finalizer.cache import Cache
from mgx_mlir.finalizer.cache_entry import encode
from mgx_mlir.tools.mgx import main

DIGITS = str(Path(__file__).resolve().parents[2] / "examples/digits.onnx")
KEYS = [f"{number}" * 64 for number in range(3)]


@pytest.fixture(scope="module")
def code() -> CodeObject:
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(DIGITS), "gfx942")
    return artifact.code_objects_for(mgx_mlir.Target.get("gfx942"))[0]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_that_cannot_be_written_is_said_once(
    number: int, code: CodeObject, tmp_path: Path, monkeypatch, caplog
) -> None:
    def fail(path: Path, data: bytes) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(module, "write_atomically", fail)
    for _ in range(2):
        cache = Cache(tmp_path / "cache")
        for key in KEYS:
            assert cache.get(key) is None
            cache.put(key, code)
        assert os.strerror(number) in cache.unwritten
    assert caplog.text.count("cannot be written") == 1 and os.strerror(number) in caplog.text


def test_filling_a_cache_that_is_no_folder_fails(tmp_path: Path, monkeypatch, capsys) -> None:
    made = str(tmp_path / "m.mgx")
    assert main(["compile", DIGITS, "-o", made]) == 0
    (tmp_path / "file").touch()
    fill = ["finalize", made, "--arch", "gfx942", "--cache-only"]
    for place in ("file", "file/cache"):
        monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / place))
        assert main(fill) == 1
        assert "the cache is not filled" in capsys.readouterr().err
    monkeypatch.setenv("MGX_CACHE_DIR", "none")
    assert main(fill) == 2
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["finalize", made, "--arch", "gfx942"]) == 0
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "other"))
    assert main(fill) == 0  # also where the artifact has the code
    assert len(list((tmp_path / "other").glob("??/*.mgxc"))) == 5


MADE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "huge": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 1 << 40),
    "damaged": lambda path: path.write_bytes(b"MGXC"),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_an_entry_that_is_none_is_replaced(
    make: Callable[[Path], None], code: CodeObject, tmp_path: Path
) -> None:
    for folder in ("own", "shared"):
        for key in KEYS:
            (tmp_path / folder / key[:2]).mkdir(parents=True, exist_ok=True)
            make(tmp_path / folder / key[:2] / f"{key}.mgxc")
    cache = Cache(tmp_path / "own", shared=tmp_path / "shared")
    assert cache.get(KEYS[0]) is None
    cache.put(KEYS[0], code)
    cache.put_entry(KEYS[1], encode(code))
    assert cache.get(KEYS[0]) == code == cache.get(KEYS[1]) and not cache.unwritten
    assert cache.verify() == [KEYS[2]]


def test_a_folder_in_place_of_an_entry_is_passed_by(code: CodeObject, tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (tmp_path / KEYS[0][:2] / f"{KEYS[0]}.mgxc").mkdir(parents=True)
    cache.put(KEYS[0], code)
    assert cache.get(KEYS[0]) is None and cache.unwritten
