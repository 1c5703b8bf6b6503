"""Weights by reference, splats that take no memory, settings."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import Weight, WeightStore
from mgx_mlir.errors import ModelError, TargetError, UsageError
from mgx_mlir.settings import VARIABLES, Settings


def test_a_weight_is_mapped_from_its_file(tmp_path: Path) -> None:
    data = np.arange(12, dtype=np.float32)
    file = tmp_path / "weights.bin"
    file.write_bytes(b"pad." + data.tobytes())
    weight = Weight("w", np.dtype(np.float32), (3, 4), file, offset=4)
    np.testing.assert_array_equal(weight.array(), data.reshape(3, 4))
    assert not weight.array().flags.writeable
    assert weight.sha256 == hashlib.sha256(data.tobytes()).hexdigest()


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"short")
    with pytest.raises(ModelError, match=r"weight 'w' needs bytes 0 to 48 of .*truncated"):
        Weight("w", np.dtype(np.float32), (3, 4), file).array()


def test_equal_arrays_share_a_key() -> None:
    store = WeightStore()
    first = store.add_array(np.ones((2, 3), np.float32) * [1, 2, 3])
    assert store.add_array(np.ones((2, 3), np.float32) * [1, 2, 3]) == first
    assert store.add_array(np.ones((3, 2), np.float32) * [1, 2]) != first
    assert len(store) == 2


@pytest.mark.parametrize("size", [(3, 5), (1 << 19, 3)])
def test_a_splat_hashes_as_its_elements_would(size: tuple[int, ...]) -> None:
    store = WeightStore()
    key = store.add_array(np.broadcast_to(np.float32(2.5), size))
    assert not any(store[key].array().strides)
    whole = np.full(size, 2.5, np.float32)
    assert store[key].sha256 == hashlib.sha256(whole.tobytes()).hexdigest()


@pytest.mark.parametrize("size", [(300, 523), (2, 256, 300), (512, 512)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16])
def test_a_weight_stored_by_columns_is_copied_by_rows(size: tuple[int, ...], dtype: type) -> None:
    stored = np.random.default_rng(0).integers(0, 100, size).astype(dtype)
    view = stored.swapaxes(-1, -2)
    weight = Weight("w", np.dtype(dtype), view.shape, data=view)
    assert weight.array().flags.c_contiguous and not view.flags.c_contiguous
    np.testing.assert_array_equal(weight.array(), view)
    np.testing.assert_array_equal(
        Weight("v", weight.dtype, size, data=stored[..., ::-1]).array(), stored[..., ::-1]
    )
    assert b"".join(weight.chunks()) == view.tobytes()


def test_a_copy_made_beside_is_whole_when_it_is_read() -> None:
    store, array = WeightStore(), np.arange(1 << 20, dtype=np.float32).reshape(1 << 10, -1)
    keys = [store.add_copy(array.T[i:], f"w.{i}") for i in range(8)]
    assert [store.add_copy(array.T[i:], f"w.{i}") for i in range(8)] == keys
    other = store.add_copy(-array.T, "w.0")  # another array under a name that is taken
    for i, key in enumerate(keys):
        np.testing.assert_array_equal(store[key].array(), array.T[i:])
        assert not store[key].array().flags.writeable
    assert other not in keys
    np.testing.assert_array_equal(store[other].array(), -array.T)


def test_copies_are_made_in_a_process_that_was_forked() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    WeightStore().add_copy(array.T, "w")  # its thread is not the child's
    if not (child := os.fork()):
        signal.alarm(20)
        store = WeightStore()
        os._exit(int(not np.array_equal(store[store.add_copy(array.T, "w")].array(), array.T)))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_two_weights_of_one_name_are_refused() -> None:
    store = WeightStore()
    store.add(Weight("w", np.dtype(np.float32), (), data=np.zeros((), np.float32)))
    with pytest.raises(ModelError, match="two weights are called 'w'"):
        store.add(Weight("w", np.dtype(np.float32), (), data=np.ones((), np.float32)))


def test_settings_read_the_environment(tmp_path: Path) -> None:
    environment = {"MGX_CACHE_DIR": str(tmp_path), "MGX_JOBS": "3", "MGX_CACHE_SIZE": "1"}
    settings = Settings.from_environment(environment)
    assert (settings.cache_dir, settings.jobs, settings.cache_bytes) == (tmp_path, 3, 1 << 20)
    assert Settings.from_environment({"MGX_CACHE_DIR": "none"}).cache_dir is None


def test_settings_of_a_script_are_checked_too(tmp_path: Path) -> None:
    given = Settings(cache_dir=str(tmp_path), emulated_devices="gfx942, gfx1100")  # type: ignore[arg-type]
    assert given.cache_dir == tmp_path
    assert given.emulated_devices == ("gfx942", "gfx1100")
    for wrong in ({"hip": "fast"}, {"jobs": 0}, {"threads": -1}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            Settings(**wrong)


def test_a_user_without_a_home_has_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers, whose user number no list has."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert Settings.from_environment({}).cache_dir == Path("/.cache/mgx-mlir/kernels")
    for name in ("MGX_CACHE_DIR", "MGX_CACHE_SHARED", "MGX_TRUST"):
        with pytest.raises(UsageError, match=r"^~/mine: Could not determine home directory"):
            Settings.from_environment({name: "~/mine"})


@pytest.mark.parametrize("name", ["MGX_JOBS", "MGX_THREADS", "MGX_CACHE_SIZE", "MGX_HIP"])
@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    assert name in VARIABLES
    with pytest.raises(UsageError, match=name):
        Settings.from_environment({name: value})


def test_an_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"'gfx9999'; known: cpu, .*gfx1201.*gfx942"):
        Target.get("gfx9999")
    assert Target.get("gfx942").wave_size == 64
    assert Target.get("gfx1100").wave_size == 32
