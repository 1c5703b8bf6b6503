"""The main job on real models, as `make demo` runs it.

Classifies handwritten digits on the CPU, then compiles ResNet-50 portably and for an AMD
GPU, on this machine, with or without one.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import onnx

import mgx_mlir
from mgx_mlir.artifact.contents import size_text
from mgx_mlir.tools.console import progress

HERE = Path(__file__).resolve().parent
RESNET = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
CHIP = "gfx942"
# Darkness of a pixel, from paper to ink.
INK = " .:-=+*#%@"


def main() -> None:
    classify_digits()
    compile_resnet()


def classify_digits() -> None:
    data = np.load(HERE / "digits_test.npz")
    images, labels = data["images"], data["labels"]
    with progress("compiling digits.onnx for the CPU") as tick:
        started = time.perf_counter()
        program = mgx_mlir.compile(HERE / "digits.onnx", target="cpu", progress=tick)
        seconds = time.perf_counter() - started
    print(f"digits.onnx: compiled for the CPU in {seconds:.2f} s")
    right = 0
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        pixels = image.astype(np.float32)[np.newaxis, np.newaxis]
        scores = program.run({"image": pixels})["probabilities"][0]
        right += int(scores.argmax() == label)
        if number < 3:
            show(image, int(label), scores)
    print(f"accuracy on {len(labels)} held-out images: {right / len(labels):.1%}\n")


def show(image: np.ndarray, label: int, scores: np.ndarray) -> None:
    """The picture, with what the network takes it for."""
    for row in image:
        print("    " + "".join(INK[min(int(v) * len(INK) // 17, len(INK) - 1)] * 2 for v in row))
    guess = int(scores.argmax())
    print(f"  it is a {label}; the network says {guess}, {scores[guess]:.1%} sure\n")


def compile_resnet() -> None:
    with progress("compiling ResNet-50") as tick:
        started = time.perf_counter()
        portable = mgx_mlir.compile_to_bytecode(RESNET)
        middle = time.perf_counter()
        artifact = mgx_mlir.finalize(portable, CHIP, progress=tick)
        ended = time.perf_counter()
    bytecode = sum(len(kernel.bytecode) for kernel in portable.kernels)
    code = artifact.code_objects[CHIP]
    print(f"ResNet-50: {artifact.plan.launches(code)} launches of {len(portable.kernels)} kernels")
    print(f"  portable bytecode (gfxMIGX): {size_text(bytecode)}, made in {middle - started:.2f} s")
    print(
        f"  code objects for {CHIP}: {len(code)}, {size_text(sum(len(c.data) for c in code))}, "
        f"finalized in {ended - middle:.2f} s (kept in the cache for the next time)"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "resnet50.mgx"
        artifact.save(file)
        print(f"  the artifact, one file: {size_text(file.stat().st_size)}")


if __name__ == "__main__":
    main()
