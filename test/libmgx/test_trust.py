"""libmgx runs machine code where something vouches for it, as the Python package does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from mgx_mlir import trust
from mgx_mlir.artifact.record import Artifact as PythonArtifact
from test.libmgx.library import Artifact, Device, LibraryError, Program

REFUSED = r"^User: .*nothing vouches for its machine code for (x86-64|aarch64)"


@pytest.fixture(scope="module")
def signed(files: dict[str, bytes], folder: Path) -> bytes:
    """The file of a program with the signature of the key in folder/keys/release.pem."""
    (folder / "keys").mkdir()
    trust.new_key(folder / "release.pem")
    (folder / "release.pub.pem").rename(folder / "keys/release.pem")
    artifact = PythonArtifact.from_bytes(files["search"])
    return trust.sign(artifact, folder / "release.pem").to_bytes()


def runs(data: bytes, **options: object) -> bool:
    Program(Artifact(data), Device("cpu:1"), **options)
    return True


def test_code_of_nobody_is_refused(files: dict[str, bytes]) -> None:
    with pytest.raises(LibraryError, match=REFUSED):
        runs(files["search"], cache_dir=b"none")
    assert runs(files["search"], cache_dir=b"none", trust_code=1)


def test_code_that_this_machine_made_runs(files: dict[str, bytes], folder: Path) -> None:
    assert runs(files["search"], cache_dir=bytes(folder / "cache"))


def test_a_cache_that_others_write_to_is_refused(files: dict[str, bytes], tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    with pytest.raises(LibraryError, match=r"^User: the kernel cache is refused: others may write"):
        runs(files["search"], cache_dir=bytes(tmp_path))


def test_signed_code_runs_where_the_key_is_trusted(signed: bytes, folder: Path) -> None:
    for keys in (folder / "keys", folder / "keys/release.pem"):
        assert runs(signed, cache_dir=b"none", trusted_keys=[keys])


def test_another_key_vouches_for_nothing(
    signed: bytes, files: dict[str, bytes], folder: Path, tmp_path: Path
) -> None:
    trust.new_key(tmp_path / "other.pem")
    with pytest.raises(LibraryError, match=REFUSED):
        runs(signed, cache_dir=b"none", trusted_keys=[tmp_path / "other.pub.pem"])
    with pytest.raises(LibraryError, match=REFUSED):
        runs(files["search"], cache_dir=b"none", trusted_keys=[folder / "keys"])


def test_a_signature_of_another_program_vouches_for_nothing(
    signed: bytes, files: dict[str, bytes], folder: Path
) -> None:
    other = PythonArtifact.from_bytes(files["rows of a loop"])
    moved = replace(other, signatures=PythonArtifact.from_bytes(signed).signatures)
    with pytest.raises(LibraryError, match=REFUSED):
        runs(moved.to_bytes(), cache_dir=b"none", trusted_keys=[folder / "keys"])


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "no public key"),
        ("-----BEGIN PUBLIC KEY-----\nMEkw\n-----END PUBLIC KEY-----\n", "another kind"),
        ("x" * (1 << 21), "more than"),
    ],
)
def test_what_is_no_key_is_a_usage_error(
    text: str, said: str, signed: bytes, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_text(text)
    with pytest.raises(LibraryError, match=rf"^Usage: .*{said}"):
        runs(signed, cache_dir=b"none", trusted_keys=[tmp_path / "key.pem"])


def test_the_environment_says_what_options_do_not(
    signed: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGX_CACHE_DIR", "none")
    with pytest.raises(LibraryError, match=REFUSED):
        runs(signed)
    for value in ("all", str(folder / "keys")):
        monkeypatch.setenv("MGX_TRUST", value)
        assert runs(signed)
    monkeypatch.setenv("MGX_TRUST", str(folder / "nothing"))
    with pytest.raises(LibraryError, match=r"^Usage: MGX_TRUST names"):
        runs(signed)


def test_code_of_a_level_of_cpus_is_taken(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MGX_CPU names a level, for which this file has no code."""
    monkeypatch.setenv("MGX_CPU", "x86-64-v2")
    with pytest.raises(LibraryError, match=r"^Target: .*mgx finalize FILE --arch"):
        runs(files["search"], trust_code=1)
    monkeypatch.setenv("MGX_CPU", "pentium")
    with pytest.raises(LibraryError, match=r"^Usage: MGX_CPU is 'pentium'"):
        runs(files["search"], trust_code=1)
