"""Puts the shared libraries that a wheel needs into it, with their licences: FOLDER WHEEL."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COPYRIGHTS = Path("/usr/share/doc")


def main() -> int:
    folder, wheel = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        repaired, unpacked = Path(scratch, "repaired"), Path(scratch, "unpacked")
        repair = ["auditwheel", "repair", "--plat", "auto", "-w", str(repaired), str(wheel)]
        subprocess.run(repair, check=True)
        (made,) = repaired.iterdir()
        command = [sys.executable, "-m", "wheel"]
        subprocess.run([*command, "unpack", "-d", str(unpacked), str(made)], check=True)
        (top,) = unpacked.iterdir()
        (info,) = top.glob("*.dist-info")
        add_licences(info)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([*command, "pack", "-d", str(folder), str(top)], check=True)
    return 0


def add_licences(info: Path) -> None:
    """Copies the copyright file of each package that auditwheel lists for the libraries."""
    for file in info.glob("sboms/*.json"):
        for part in json.loads(file.read_text()).get("components", ()):
            source = COPYRIGHTS / part["name"] / "copyright"
            if source.is_file():
                target = info / "licenses" / part["name"]
                target.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / "copyright")


if __name__ == "__main__":
    sys.exit(main())
