"""Files that are written: whole or not at all, and nothing but regular files is replaced."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from mgx_mlir.artifact.files import atomic_file, write_atomically
from mgx_mlir.errors import Edge, UserError
from mgx_mlir.tools.mgx import main

DIGITS = str(Path(__file__).resolve().parents[1] / "examples/digits.onnx")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with pytest.raises(ValueError), atomic_file(file) as stream:
        stream.write(b"half")
        raise ValueError
    assert not list(tmp_path.iterdir())
    write_atomically(file, b"whole")
    assert file.read_bytes() == b"whole" and list(tmp_path.iterdir()) == [file]


def test_modes_are_those_of_the_mask_or_of_the_file_before(tmp_path: Path, monkeypatch) -> None:
    previous = os.umask(0o027)
    monkeypatch.setattr(os, "umask", None)  # it belongs to the whole process
    try:
        write_atomically(tmp_path / "new", b"")
    finally:
        monkeypatch.undo()
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o600)
    write_atomically(tmp_path / "new", b"again")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


def test_links_are_written_through(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to("folder/file")
    for content in (b"new", b"replaced"):
        write_atomically(link, content)
        assert link.is_symlink() and (tmp_path / "folder/file").read_bytes() == content


def test_pipes_are_written_through(tmp_path: Path) -> None:
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    assert main(["compile", DIGITS, "-o", str(pipe)]) == 0
    reader.join()
    assert found[0].startswith(b"\x89MGX") and stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("verb", ["compile", "read"])
def test_the_null_device_stays_a_device(verb: str, tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    for output in ("/dev/null", str(tmp_path / "null")):
        assert main([verb, DIGITS, "-o", output]) == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode) and (tmp_path / "null").is_symlink()


def test_failures_name_the_file_of_the_user(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "x"
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(UserError, match=f"^saving: {file}: No space"):  # noqa: SIM117
        with Edge("saving"), atomic_file(file):
            raise full
    with pytest.raises(UserError, match=f"^saving: {tmp_path}: Is a directory"), Edge("saving"):
        write_atomically(tmp_path, b"")
    with pytest.raises(UserError, match=r"gone/x: No such file or dir"), Edge("saving"):
        write_atomically(tmp_path / "gone/x", b"")


def test_a_full_disk_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", DIGITS, "-o", "/dev/full"]) == 1
    assert capsys.readouterr().err.endswith("artifact: /dev/full: No space left on device\n")


@pytest.mark.parametrize("name", ["pipe.onnx", "pipe.mgx"])
@pytest.mark.parametrize("verb", ["check", "inspect", "params"])
def test_a_pipe_in_place_of_a_model_is_not_waited_for(
    verb: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / name)
    assert main([verb, str(tmp_path / name)]) in (1, 2)
    error = capsys.readouterr().err
    assert f"{name} is no regular file" in error or "mgx check takes the .onnx model" in error
