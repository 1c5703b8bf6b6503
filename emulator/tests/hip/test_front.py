"""The Python front: finding the library, enabling it, the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hip_support import DEVICES, HERE, passes, run_python

from mgx_mlir import emulator
from mgx_mlir.emulator import build
from mgx_mlir.errors import UsageError

ROOT = HERE.parents[2]


def command(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "mgx_mlir.emulator", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_library_is_found():
    assert emulator.library_path().name == "libamdhip64.so"
    assert emulator.enabled()


def test_the_root_holds_the_library_under_every_linked_name():
    root = emulator.rocm_path()
    for name in emulator.LINKED_NAMES:
        assert (root / "lib" / name).samefile(emulator.library_path())


def test_devices_are_records():
    found = emulator.devices()[: len(DEVICES)]  # others were added in this process
    assert [d.chip for d in found] == list(DEVICES)
    assert found[0].wave_size == 64 and found[1].wave_size == 32


def test_enabling_twice_is_enabling_once():
    assert emulator.enable() == emulator.library_path()


def test_the_command_prints_the_devices_and_the_way_to_them():
    out = passes(command(MGX_EMULATED_DEVICES="gfx1201,gfx90a"))
    for part in ("gfx1201", "gfx90a", "Wavefront Size", "ROCM_PATH", "MGX_EMULATED_DEVICES"):
        assert part in out


def test_the_command_writes_json():
    records = json.loads(passes(command("--json", MGX_EMULATED_DEVICES="gfx950")))
    assert [r["chip"] for r in records] == ["gfx950"]


def test_the_command_writes_shell_lines():
    out = passes(command("--env"))
    script = out + '\nls "$ROCM_PATH/lib/libamdhip64.so" && echo "$LD_LIBRARY_PATH"'
    assert "libamdhip64.so" in passes(
        subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    )


def test_enable_names_the_devices():
    script = """
    import subprocess, sys
    program = (
        "import sys; sys.path.insert(0, {root!r})\\n"
        "from mgx_mlir import emulator\\n"
        "emulator.enable(['gfx1030', 'gfx950'])\\n"
        "from hip import hip\\n"
        "print([hip.hipGetDeviceProperties(i)[1].gcnArchName for i in range(2)])\\n"
    )
    print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout)
    """
    out = passes(run_python(script.replace("{root!r}", repr(str(ROOT)))))
    assert "gfx1030" in out and "gfx950" in out


def test_a_library_that_is_open_already_is_noticed(monkeypatch):
    other = Path("/opt/rocm/lib/libamdhip64.so")
    monkeypatch.setattr(emulator, "_open_libraries", lambda: (other,))
    with pytest.raises(UsageError, match="opened /opt/rocm"):
        emulator.enable()


def test_another_library_can_be_named(monkeypatch, tmp_path):
    named = tmp_path / "libamdhip64.so"
    monkeypatch.setenv("MGX_EMULATOR_LIBRARY", str(named))
    with pytest.raises(UsageError, match="which is no file"):
        emulator.library_path()
    named.touch()
    assert emulator.library_path() == named


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """A folder in place of the checkout, in which nothing is built."""
    monkeypatch.delenv("MGX_EMULATOR_LIBRARY", raising=False)
    monkeypatch.setattr(emulator, "__file__", str(tmp_path / "a" / "b" / "__init__.py"))
    monkeypatch.setattr(build, "CHECKOUT", tmp_path)
    return tmp_path


def test_an_installation_without_the_library_says_so(checkout):
    with pytest.raises(UsageError, match=r"has no emulated GPUs; a GPU needs AMD's driver"):
        emulator.library_path()
    assert not emulator.enabled()


def test_a_checkout_builds_the_library_when_it_is_asked_for(checkout, capfd):
    (checkout / "emulator").mkdir()
    project = checkout / "emulator" / "CMakeLists.txt"
    project.write_text("cmake_minimum_required(VERSION 3.20)\nproject(p C)\nnonsense()\n")
    assert not emulator.enabled()
    with pytest.raises(UsageError, match=r"(?s)do not build: cmake .*nonsense"):
        emulator.library_path()
    (checkout / "emulator" / "a.c").touch()
    project.write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(p C)\nadd_library(amdhip64 SHARED a.c)\n"
    )
    assert emulator.library_path() == checkout / "build/emulator/libamdhip64.so"
    assert emulator.library_path().is_file()
    assert "building the emulated GPUs" in capfd.readouterr().err


def test_own_functions_check_their_arguments():
    with pytest.raises(UsageError, match="no emulated device 9"):
        emulator.profile(9)
    with pytest.raises(UsageError, match="no emulated device 9"):
        emulator.reset_device(9)
