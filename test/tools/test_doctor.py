"""mgx doctor: machines that lack something, and what it says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgx_mlir.runtime.hip import probe
from mgx_mlir.settings import Settings
from mgx_mlir.tools.doctor import Finding, diagnose
from mgx_mlir.tools.doctor.surroundings import Surroundings, chip_name
from mgx_mlir.tools.mgx import main

DEVICE = {
    "ordinal": 0,
    "chip": "gfx1100",
    "target_id": "gfx1100",
    "product": "a card",
    "memory_bytes": 24 << 30,
    "compute_units": 96,
    "wave_size": 32,
    "memory": "",
}
HIP: dict[str, Any] = {
    "hip_python": "10.0",
    "library": "real",
    "runtime": 70_100_000,
    "driver": 70_100_000,
    "devices": [DEVICE],
    "file": "/opt/rocm/lib/libamdhip64.so.7",
    "llvm": ["/usr/lib/libLLVM.so.22.1"],
}


@pytest.fixture
def machine(tmp_path: Path) -> Surroundings:
    """One with a card of gfx1100 and all that it needs."""
    for name in ("kfd", "dri/renderD128", "amdgpu/version"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("6.14.2\n")
    for number, version in enumerate((0, 110000)):  # a CPU is a node too
        (tmp_path / "nodes" / str(number)).mkdir(parents=True)
        properties = tmp_path / "nodes" / str(number) / "properties"
        properties.write_text(f"simd_count 1\ngfx_target_version {version}\n")
    return Surroundings(
        environment={},
        driver=tmp_path / "kfd",
        render=tmp_path / "dri",
        topology=tmp_path / "nodes",
        module=tmp_path / "amdgpu",
        pci=tmp_path / "pci",
        user="ann",
        groups=frozenset(["ann"]),
        may_open=lambda path: True,
        owner=lambda path: "render",
    )


def faults(machine: Surroundings, **changed: Any) -> list[Finding]:
    settings = Settings(hip="real", cache_dir=machine.driver.parent / "cache")
    return [f for f in diagnose(machine, HIP | changed, settings) if f.level == "fault"]


def only(found: list[Finding]) -> Finding:
    (finding,) = found
    return finding


def test_a_machine_that_lacks_nothing(machine: Surroundings) -> None:
    assert not faults(machine)


def test_no_driver(machine: Surroundings) -> None:
    finding = only(faults(replace(machine, driver=machine.driver / "none")))
    assert "is missing" in finding.found and "modprobe amdgpu" in finding.mend


def test_no_permission(machine: Surroundings) -> None:
    found = faults(replace(machine, may_open=lambda path: False))
    assert [f.what for f in found] == ["permission", "permission"]
    assert "ann may not read and write" in found[0].found
    assert "sudo usermod -aG render ann" in found[0].mend
    again = faults(replace(machine, may_open=lambda p: False, groups=frozenset(["render"])))
    assert "chmod g+rw" in again[0].mend  # the group is there, the mode is not


def test_no_node_of_the_card(machine: Surroundings) -> None:
    (machine.render / "renderD128").unlink()
    assert "--device=/dev/dri" in only(faults(machine)).mend


def test_versions_of_hip(machine: Surroundings) -> None:
    old = only(faults(machine, runtime=50_200_000, driver=50_200_000))
    assert "version 5.2" in old.found and "ROCm 6 or newer" in old.mend
    mixed = only(faults(machine, driver=60_400_000))
    assert "of version 6" in mixed.found and "of one ROCm" in mixed.mend
    new = diagnose(machine, HIP | {"runtime": 80_000_000, "driver": 80_000_000}, Settings())
    assert any(f.level == "note" and "newer than 7.x" in f.found for f in new)


def test_an_unknown_chip(machine: Surroundings) -> None:
    other = {**DEVICE, "chip": "gfx1109", "target_id": "gfx1109"}
    found = faults(machine, devices=[other])
    assert "no known chip" in found[0].found and "--target gfx11-generic" in found[0].mend
    assert "target.py" in only(faults(machine, devices=[{**DEVICE, "chip": "gfx1310"}])[:1]).mend


def test_a_chip_that_is_called_another(machine: Surroundings) -> None:
    pretending = replace(machine, environment={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    found = faults(pretending, devices=[{**DEVICE, "chip": "gfx1030"}])
    assert [f.what for f in found] == ["chip", "HSA_OVERRIDE_GFX_VERSION"]
    assert "is a gfx1100, and HIP takes it for gfx1030" in found[0].found
    assert found[1].mend == "unset HSA_OVERRIDE_GFX_VERSION"


def test_devices_that_hip_does_not_show(machine: Surroundings) -> None:
    finding = only(faults(machine, devices=[]))
    assert finding.found == "the driver has 1 (gfx1100), HIP 0"


def test_memory_that_cannot_be_used(machine: Surroundings) -> None:
    broken = {**DEVICE, "memory": "hipMalloc failed: hipErrorOutOfMemory"}
    assert "hipErrorOutOfMemory" in only(faults(machine, devices=[broken])).found


def test_two_copies_of_llvm(machine: Surroundings) -> None:
    copies = ["/opt/rocm/lib/libLLVM.so.20", "/usr/lib/libLLVM.so.22.1"]
    assert "LD_LIBRARY_PATH" in only(faults(machine, llvm=copies)).mend


def test_chips_by_the_drivers_numbers() -> None:
    names = {90402: "gfx942", 90010: "gfx90a", 100306: "gfx1036", 120001: "gfx1201"}
    assert {version: chip_name(version) for version in names} == names


def test_a_library_that_does_not_answer() -> None:
    record = probe.ask(seconds=0.001)
    assert "did not answer within" in record["fault"]


@pytest.mark.parametrize(
    ("failing", "words"),
    [("hipGetDeviceCount:1:100", "hipErrorNoDevice"), ("hipMalloc:1", "memory of device 0")],
)
def test_a_library_that_fails(
    failing: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_HIP", "emulated")
    monkeypatch.setenv("MGX_EMULATOR_FAIL", failing)
    assert main(["doctor"]) == 1
    assert words in capsys.readouterr().out


def test_the_emulated_device_lacks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_HIP", "emulated")
    assert main(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["hip"]["devices"][0]["chip"] == "gfx942"
    assert {finding["level"] for finding in record["findings"]} == {"ok", "note"}
