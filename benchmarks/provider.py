"""Host time of a run through onnxruntime: this project's provider, beside its own for the CPU.

    python -m benchmarks.provider [--runs 20000] [--rounds 5]

A model of three nodes on 64 floats, whose inputs and outputs are bound, on one thread. Prints the
least microseconds of the process that a run takes in one of the rounds, by turns.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import parser

import mgx_mlir
from mgx_mlir.importer import loading
from mgx_mlir.loader import finalize
from mgx_mlir.models.ep_context import context_model
from mgx_mlir.models.islands import find_islands

LIBRARY = Path(__file__).parents[1] / "onnxruntime_ep/onnxruntime_ep_mgx/libonnxruntime_ep_mgx.so"
MODEL = """<ir_version: 8, opset_import: ["" : 17]>
    small (float[64] x) => (float[64] y) { a = Add(x, x)  b = Relu(a)  y = Mul(b, x) }"""


def main() -> None:
    parser_ = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser_.add_argument("--runs", type=int, default=20000)
    parser_.add_argument("--rounds", type=int, default=5)
    options = parser_.parse_args()
    bindings = {"onnxruntime's": _bound(_of_cpu()), "this project's": _bound(_of_provider())}
    least = dict.fromkeys(bindings, float("inf"))
    for _ in range(options.rounds):
        for name, (session, binding) in bindings.items():
            started = time.process_time()
            for _ in range(options.runs):
                session.run_with_iobinding(binding)
            taken = (time.process_time() - started) / options.runs
            least[name] = min(least[name], taken * 1e6)
    for name, microseconds in least.items():
        print(f"{name} provider: {microseconds:.1f} us of the process a run")


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return options


def _of_cpu() -> Any:
    model = parser.parse_model(MODEL).SerializeToString()
    of_cpu = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(model, _options(), providers=of_cpu)


def _of_provider() -> Any:
    onnxruntime.register_execution_provider_library("mgx", str(LIBRARY))
    found = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "MGXExecutionProvider"]
    (device,) = [d for d in found if d.ep_metadata["mgx_target"] == "cpu"]
    islands = find_islands(
        loading.load(parser.parse_model(MODEL)), mgx_mlir.CompileOptions(), "cpu"
    )
    (island,) = islands.islands
    made = replace(island, artifact=finalize(island.artifact, "cpu"))
    model = context_model(replace(islands, islands=(made,)))
    options = _options()
    options.add_provider_for_devices([device], {"threads": "1", "trust": "all"})
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def _bound(session: Any) -> tuple[Any, Any]:
    binding = session.io_binding()
    for bind, name in ((binding.bind_ortvalue_input, "x"), (binding.bind_ortvalue_output, "y")):
        bind(name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ones(64, np.float32)))
    return session, binding


if __name__ == "__main__":
    main()
