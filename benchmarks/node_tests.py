"""How many of ONNX's node tests pass, here and with peers, by onnx's own runner and its bounds.

    python -m benchmarks.node_tests [--by mgx,onnxruntime,iree,migraphx] [--opset N] [--jobs N]

Each case runs in a process of its own, so that a crash or a hang counts as one that fails. mgx,
onnxruntime and IREE (`pip install "iree-base-compiler[onnx]" iree-base-runtime`, llvm-cpu) run on
the CPU, MIGraphX (its Python module, from ROCm) on its reference target; a peer that is not
installed is left out. `--opset` stamps newer models down to the newest opset that a peer knows:
the nodes stay as they are.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from mgx_mlir.backend import MgxBackend
from test import onnx_suite

# After so many seconds a case counts as a hang.
SECONDS = 120


class Peer(BackendRep):
    """A model of a peer: names of its inputs in their order."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        weights = {tensor.name for tensor in model.graph.initializer}
        self.names = [i.name for i in model.graph.input if i.name not in weights]


class OnnxRuntime(Peer):
    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self.value = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        self.session = onnxruntime.InferenceSession(model.SerializeToString())

    def run(self, inputs: Sequence[Any], **_: Any) -> list[Any]:
        given = dict(zip(self.names, inputs, strict=False))
        types = {i.name: i.type.tensor_type.elem_type for i in self.model.graph.input}
        for name, x in given.items():
            # numpy has no type of its own for these: numbers of as many bits stand for them.
            if isinstance(x, np.ndarray) and x.dtype.kind == "V":
                bits = x.view(np.dtype(f"u{x.itemsize}"))
                given[name] = self.value(bits, types[name])
        return self.session.run(None, given)


class Iree(Peer):
    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        import iree.runtime as runtime

        with tempfile.TemporaryDirectory() as folder:
            source, code = Path(folder, "model.mlir"), Path(folder, "model.vmfb")
            onnx.save(model, Path(folder, "model.onnx"))
            tool("iree-import-onnx", Path(folder, "model.onnx"), "-o", source)
            device = "--iree-hal-local-target-device-backends=llvm-cpu"
            chip = ["--iree-hal-target-device=local", device, "--iree-llvmcpu-target-cpu=host"]
            tool("iree-compile", source, "-o", code, *chip)
            binary = code.read_bytes()
        self.config = runtime.Config("local-sync")
        instance = self.config.vm_instance
        module = runtime.VmModule.copy_buffer(instance, binary)
        (name,) = {n.split("$")[0] for n in module.function_names if not n.startswith("_")}
        self.run_module = runtime.load_vm_module(module, self.config)[name]

    def run(self, inputs: Sequence[Any], **_: Any) -> list[Any]:
        found = self.run_module(*(np.asarray(x) for x in inputs))
        results = found if isinstance(found, (list, tuple)) else [found]
        arrays = [np.asarray(result.to_host()) for result in results]
        return [as_declared(a, o) for a, o in zip(arrays, self.model.graph.output, strict=True)]


def as_declared(array: np.ndarray, output: onnx.ValueInfoProto) -> np.ndarray:
    """An array in the type of its output, of as many bits: IREE's integers have no sign."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    same = dtype.itemsize == array.itemsize and {dtype.kind, array.dtype.kind} <= set("iubV")
    return array.view(dtype) if same else array


class MIGraphX(Peer):
    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        import migraphx

        self.argument = migraphx.argument
        self.program = migraphx.parse_onnx_buffer(model.SerializeToString())
        self.program.compile(migraphx.get_target("ref"))

    def run(self, inputs: Sequence[Any], **_: Any) -> list[Any]:
        given = dict(zip(self.names, inputs, strict=False))
        values = {n: self.argument(np.ascontiguousarray(x)) for n, x in given.items()}
        return [np.array(result) for result in self.program.run(values)]


def tool(name: str, *arguments: object) -> None:
    command = [str(Path(sys.executable).with_name(name)), *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


# By the names of their Python modules.
PEERS = {"onnxruntime": OnnxRuntime, "iree": Iree, "migraphx": MIGraphX}
NAMES = ("mgx", *PEERS)


def backend(by: str, opset: int | None) -> type[Backend]:
    """The class that onnx's runner asks to prepare models, with opsets of at most `opset`."""

    class Stamped(Backend):
        @classmethod
        def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> BackendRep:
            for used in model.opset_import if opset else ():
                if used.domain in ("", "ai.onnx"):
                    used.version = min(used.version, opset)
            return MgxBackend.prepare(model, device) if by == "mgx" else PEERS[by](model)

        @classmethod
        def supports_device(cls, device: str) -> bool:
            return device == "CPU"

    return Stamped


def passing(
    cases: onnx_suite.Cases, names: Sequence[tuple[str, str]], jobs: int
) -> set[tuple[str, str]]:
    """The cases that pass, each in a process of its own, `jobs` at a time."""
    # Processes are forked by the only thread there is: no lock is held in them by another.
    new = multiprocessing.get_context("fork").Process
    left, running, found = list(reversed(names)), {}, set()
    while left or running:
        while left and len(running) < jobs:
            case = left.pop()
            process = new(target=attempt, args=(cases, *case))
            process.start()
            running[process.sentinel] = process, case, time.monotonic() + SECONDS
        ended = connection.wait(running, timeout=1)
        for sentinel, (process, case, until) in list(running.items()):
            if sentinel not in ended and time.monotonic() < until:
                continue
            process.kill()
            process.join()
            del running[sentinel]
            if process.exitcode == 0:
                found.add(case)
    return found


def attempt(cases: onnx_suite.Cases, group: str, name: str) -> None:
    """Ends the process: 0 where the case passes. What it prints is nobody's."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        onnx_suite.run(cases, group, name)
    except BaseException:  # whatever a peer raises is a case that fails
        os._exit(1)
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--by", default=",".join(NAMES), help="who runs them")
    parser.add_argument("--opset", type=int, metavar="N", help="the newest opset a peer is given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--match", default="", metavar="TEXT", help="cases whose names have it")
    parser.add_argument("--list", action="store_true", help="name the cases that fail")
    options = parser.parse_args()
    os.environ.update(MGX_JOBS="1", MGX_THREADS="1", OMP_NUM_THREADS="1")
    for by in options.by.split(","):
        if by not in NAMES:
            parser.error(f"{by!r} is none of {', '.join(NAMES)}")
        if by in PEERS and importlib.util.find_spec(by) is None:
            print(f"{by}: not installed")
            continue
        cases = onnx_suite.cases_for(backend(by, options.opset), __name__)
        names = [c for c in onnx_suite.names_of(cases) if "Node" in c[0] and options.match in c[1]]
        found = passing(cases, names, options.jobs)
        print(f"{by}: {len(found)} of {len(names)} pass", flush=True)
        for case in names if options.list else ():
            if case not in found:
                print(f"  {case[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
