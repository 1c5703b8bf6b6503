"""The cache of code objects: what it keeps, shares, repairs and lets go."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch
from mgx_mlir.errors import UsageError
from mgx_mlir.finalizer.cache import Cache, cache_key
from mgx_mlir.finalizer.cache_archive import export_cache, import_cache
from mgx_mlir.trust import Trust

ROOT = Path(__file__).parents[2]


def code(content: bytes = b"\x7fELF", arch: str = "gfx942") -> CodeObject:
    launch = Launch("f", (2, 1, 1), (64, 1, 1), (Argument("input", 0), Argument("scratch", 256)))
    return CodeObject(arch, content, (launch,), 512, {"f": {"vgpr": 4}})


def key(number: int) -> str:
    return cache_key(str(number))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 1 << 20)


def test_gives_back_what_was_put(cache: Cache) -> None:
    assert cache.get(key(1)) is None
    cache.put(key(1), code())
    assert cache.get(key(1)) == code()
    assert cache.get(key(2)) is None
    assert (cache.hits, cache.misses) == (1, 2)


def test_key_tells_lists_of_parts_apart() -> None:
    assert cache_key("a", "bc") != cache_key("ab", "c") != cache_key("abc")
    assert len(cache_key("a")) == 64


def test_damaged_entry_is_deleted_and_rebuilt(cache: Cache) -> None:
    cache.put(key(1), code())
    (entry,) = cache.entries()
    whole = entry.path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        entry.path.write_bytes(damaged)
        assert cache.get(key(1)) is None
        assert not entry.path.exists()
        assert str(entry.path) in cache.problem
        cache.put(key(1), code())
        assert cache.get(key(1)) == code()


@pytest.mark.parametrize("size", [0, 1, 39, 40, 47, 48, 100])
def test_entry_cut_short_is_not_there(cache: Cache, size: int) -> None:
    cache.put(key(1), code())
    (entry,) = cache.entries()
    entry.path.write_bytes(entry.path.read_bytes()[:size])
    assert cache.get(key(1)) is None


def test_verify_finds_damage(cache: Cache) -> None:
    for number in range(4):
        cache.put(key(number), code(bytes([number])))
    path = cache.folder / key(2)[:2] / f"{key(2)}.mgxc"
    path.write_bytes(path.read_bytes() + b"x")
    assert cache.verify() == [key(2)]
    assert len(list(cache.entries())) == 3
    assert cache.verify() == []


def test_least_recently_used_entries_go_first(cache: Cache) -> None:
    for number in range(8):
        cache.put(key(number), code(bytes(1000)))
    for number in range(8):
        path = cache.folder / key(number)[:2] / f"{key(number)}.mgxc"
        os.utime(path, (1000 + number, 1000 + number))
    assert cache.get(key(0)) is not None  # used now: the newest of all
    size = next(cache.entries()).bytes
    removed = cache.prune(3 * size)
    assert removed == 5 * size
    kept = {entry.key for entry in cache.entries()}
    assert kept == {key(0), key(6), key(7)}


def test_size_is_bounded_while_writing(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100_000)
    for number in range(200):
        cache.put(key(number), code(bytes(4000)))
    assert sum(entry.bytes for entry in cache.entries()) <= 120_000
    assert cache.get(key(199)) is not None


def test_pruning_removes_what_a_killed_process_left(cache: Cache) -> None:
    cache.put(key(1), code())
    leftover = cache.folder / key(1)[:2] / f".{key(1)}.mgxc.abc"
    leftover.write_bytes(b"half")
    os.utime(leftover, (1000, 1000))
    cache.prune(1 << 20)
    assert not leftover.exists()
    assert cache.get(key(1)) is not None


def test_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file")
    cache.put(key(1), code())
    assert "cannot be written" in cache.problem
    assert cache.get(key(1)) is None


_HAMMER = """
import sys
from pathlib import Path
from mgx_mlir.finalizer.cache import Cache, cache_key
from mgx_mlir.artifact.code_object import CodeObject
cache = Cache(Path(sys.argv[1]), 200_000)
for i in range(10**9):
    n = i % 40
    want = CodeObject("gfx942", bytes([n]) * 2000, (), 0, {})
    found = cache.get(cache_key(str(n)))
    assert found is None or found == want, "wrong entry"
    cache.put(cache_key(str(n)), want)
    if i == 200: print("warm", flush=True)
"""


def test_processes_share_a_folder_even_when_killed(tmp_path: Path) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _HAMMER, str(tmp_path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip

    workers = [start() for _ in range(3)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "warm\n", worker.stderr and worker.stderr.read()
    for worker in workers:
        time.sleep(0.02)
        assert worker.poll() is None
        worker.kill()
        worker.communicate()
    cache = Cache(tmp_path, 200_000)
    assert cache.verify() == []
    for number in range(40):
        found = cache.get(key(number))
        assert found is None or found.data == bytes([number]) * 2000


def test_shared_folder_is_read_and_never_written(tmp_path: Path) -> None:
    shared = Cache(tmp_path / "shared")
    shared.put(key(1), code(b"shared"))
    shared.put(key(2), code(b"other"))
    (entry,) = (e for e in shared.entries() if e.key == key(2))
    entry.path.write_bytes(b"damaged")
    before = {e.path: (e.path.read_bytes(), e.used) for e in shared.entries()}
    cache = Cache(tmp_path / "own", shared=tmp_path / "shared")
    assert cache.get(key(1)) == code(b"shared")
    assert cache.get(key(2)) is None and "damaged" in cache.problem
    cache.put(key(1), code(b"own"))
    assert cache.get(key(1)) == code(b"own")  # one's own comes first
    cache.prune(0)
    assert {e.path: (e.path.read_bytes(), e.used) for e in shared.entries()} == before


def test_cache_goes_through_one_file(cache: Cache, tmp_path: Path) -> None:
    for number in range(3):
        cache.put(key(number), code(bytes([number]), "gfx942" if number else "gfx1100"))
    cache.put(key(9), code())
    damaged = cache.folder / key(9)[:2] / f"{key(9)}.mgxc"
    damaged.write_bytes(b"x")
    assert export_cache(cache, tmp_path / "a.tar") == 3
    assert export_cache(cache, tmp_path / "b.tar") == 3
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    other = Cache(tmp_path / "other", trust=Trust(everybody=True))
    imported = import_cache(other, tmp_path / "a.tar")
    assert (imported.kept.total(), imported.refused) == (3, {})
    assert all(other.get(key(n)) == cache.get(key(n)) != None for n in range(3))  # noqa: E711
    assert export_cache(cache, tmp_path / "c.tar", "gfx1100") == 1


def test_members_that_are_no_sound_entries_are_refused(cache: Cache, tmp_path: Path) -> None:
    cache.put(key(1), code())
    (entry,) = cache.entries()
    sound = entry.path.read_bytes()
    members = {
        f"{key(2)}.mgxc": sound[:-1],
        f"../{key(3)}.mgxc": sound,
        f"{key(3)}.mgxc.x": sound,
        f"{key(4)}.mgxc": sound,
    }
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"{key(5)}.mgxc")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    cache.trust = Trust(vouched_gpu_code=False)
    found = import_cache(cache, tmp_path / "x.tar")
    assert found.kept.total() == 1 and cache.get(key(4)) == code()
    assert list(found.refused) == [*list(members)[:3], f"{key(5)}.mgxc"]
    (tmp_path / "y.tar").write_bytes(b"no archive at all" * 99)
    with pytest.raises(UsageError, match="no exported cache"):
        import_cache(cache, tmp_path / "y.tar")
