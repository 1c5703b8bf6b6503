"""The cache on the command line, and the folders that the settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgx_mlir.artifact.code_object import CodeObject, Launch
from mgx_mlir.errors import UsageError
from mgx_mlir.finalizer.cache import Cache, cache_key
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """The user's cache, with three entries of a megabyte for two chips."""
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "own"))
    cache = Cache(tmp_path / "own")
    for number, arch in enumerate(("gfx942", "gfx942", "gfx1100")):
        launch = Launch(f"kernel_{number}", (1, 1, 1), (64, 1, 1), ())
        cache.put(cache_key(str(number)), CodeObject(arch, bytes(1 << 20), (launch,), 0, {}))
    return cache


def test_list_says_what_is_there(cache: Cache, capsys: Output) -> None:
    assert main(["cache", "list"]) == 0
    text = capsys.readouterr().out
    assert f"folder  {cache.folder}" in text and "3 entries" in text
    assert "gfx942                2 entries" in text
    assert main(["cache", "list", "--entries"]) == 0
    assert "gfx1100: kernel_2" in capsys.readouterr().out


def test_verify_repairs(cache: Cache, capsys: Output) -> None:
    assert main(["cache", "verify"]) == 0
    entry = min(cache.entries(), key=lambda entry: entry.key)
    entry.path.write_bytes(entry.path.read_bytes()[:-1])
    assert main(["cache", "list"]) == 0
    assert "damaged               1 entries" in capsys.readouterr().out
    assert main(["cache", "verify"]) == 1
    assert f"{entry.key} was damaged and is deleted" in capsys.readouterr().out
    assert main(["cache", "verify"]) == 0


def test_prune_keeps_what_was_asked_for(cache: Cache, capsys: Output) -> None:
    assert main(["cache", "prune"]) == 0  # far below the bound
    assert len(list(cache.entries())) == 3
    assert main(["cache", "prune", "--to", "2"]) == 0
    assert len(list(cache.entries())) == 1
    assert "2.0 MB deleted, 1.0 MB left" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main(["cache", "prune", "--to", "-1"])


def test_export_and_import(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    assert main(["cache", "export", str(tmp_path / "c.tar"), "--arch", "gfx942"]) == 0
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "other"))
    assert main(["cache", "import", str(tmp_path / "c.tar")]) == 1
    assert "consent to it (--trust-code, or MGX_TRUST=all)" in capsys.readouterr().out
    assert main(["cache", "import", str(tmp_path / "c.tar"), "--trust-code"]) == 0
    assert "c.tar: 2 entries" in capsys.readouterr().out
    assert {e.key for e in Cache(tmp_path / "other").entries()} == {cache_key("0"), cache_key("1")}
    (tmp_path / "c.tar").write_bytes(b"x" * 2000)
    assert main(["cache", "import", str(tmp_path / "c.tar")]) == 2


def test_no_cache_is_a_choice(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("MGX_CACHE_DIR", "none")
    assert main(["cache", "list"]) == 2
    assert "there is no cache" in capsys.readouterr().err


def test_shared_folder_is_a_choice(tmp_path: Path) -> None:
    environment = {"MGX_CACHE_DIR": str(tmp_path), "MGX_CACHE_SHARED": "/opt/kernels"}
    assert Settings.from_environment(environment).cache_shared == Path("/opt/kernels")
    with pytest.raises(UsageError, match="folder of one's own"):
        Settings.from_environment({**environment, "MGX_CACHE_DIR": "none"})


def test_a_shared_folder_that_is_not_there_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing, there = tmp_path / "missing", tmp_path / "there"
    there.mkdir()
    Cache(tmp_path / "mine", shared=there)
    assert not caplog.text
    for _ in range(2):
        Cache(tmp_path / "mine", shared=missing)
    assert f"MGX_CACHE_SHARED is {missing}, and no such folder is there" in caplog.text
    assert len(caplog.records) == 1
