"""Random nodes of each operator, compiled and run, beside onnxruntime and onnx's evaluator.

    python -m test.fuzz.operators [--seeds 0-99] [--target cpu|gfx942|...] [--op NAME,NAME]

A case is an operator and a seed: element types, shapes, attributes, opset, values. It passes where
it agrees with each reference that has a result; `disputes.py` says where one is not asked, and
why. GPUs are emulated, in strict mode. The exit code says whether a case failed.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import subprocess
import sys

# Seconds for a case that takes tenths of one; then its process ends with a trace.
_HANG = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--seeds", default="0-0", help="the first and the last, or one")
    add("--target", default="cpu")
    add("--op", default="", help="operators, comma-separated; those of com.microsoft with it")
    add("--open", action="store_true", help="the inputs' sizes are symbolic")
    add("--unasked", action="store_true", help="print the cases that no reference runs too")
    add("--from-case", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    return supervise(options) if options.from_case is None else work(options)


def supervise(options: argparse.Namespace) -> int:
    """Runs a worker; where it dies, that is a failure, and the next goes on after its case."""
    environment = {**os.environ, "MGX_EMULATOR_STRICT": "1", "MGX_JOBS": "1"}
    environment.setdefault("MGX_CACHE_DIR", "none")
    if options.target.startswith("gfx"):
        environment |= {"MGX_EMULATED_DEVICES": options.target, "MGX_HIP": "emulated"}
    words = ["--seeds", options.seeds, "--target", options.target, "--op", options.op]
    words += ["--unasked"] if options.unasked else []
    words += ["--open"] if options.open else []
    counts: collections.Counter[str] = collections.Counter()
    start, over = 0, False
    while not over:
        command = [sys.executable, "-W", "ignore", "-m", "test.fuzz.operators", *words]
        command += ["--from-case", str(start)]
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        case = ""
        for line in worker.stdout:
            if line.startswith("case "):
                case = line.strip()
            elif line.startswith("count "):
                counts[line.strip().partition(" ")[2]] += 1
                case = ""
            elif line.startswith("over"):
                over = True
            else:
                print(line, end="", flush=True)
        worker.wait()
        if over:
            break
        counts["FAIL"] += 1
        print(f"FAIL {case or 'the start'}: the process ended with {worker.returncode}", flush=True)
        if not case:
            break
        start = int(case.split()[1]) + 1
    print(f"{options.target}:", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    return int(counts["FAIL"] > 0 or not counts["ok"])


def work(options: argparse.Namespace) -> int:
    from mgx_mlir.errors import DeviceError
    from test.fuzz.command import reset_devices
    from test.fuzz.operators.check import OPERATORS, compare, draw_case

    first, _, last = options.seeds.partition("-")
    names = options.op.split(",") if options.op else sorted(OPERATORS)
    if unknown := [name for name in names if name not in OPERATORS]:
        sys.exit(f"no operator {', '.join(unknown)}; there are {', '.join(sorted(OPERATORS))}")
    cases = [(n, s) for s in range(int(first), int(last or first) + 1) for n in names]
    for number in range(options.from_case, len(cases)):
        name, seed = cases[number]
        print("case", number, name, seed, flush=True)
        faulthandler.dump_traceback_later(_HANG, exit=True)
        case = draw_case(name, seed)
        try:
            outcome, said = compare(case, options.target, options.open)
        except Exception as error:  # no error of a user: a fault of the compiler or the device
            outcome, said = "FAIL", f"{type(error).__name__}: {str(error)[:600]}"
            if isinstance(error, DeviceError):
                reset_devices()
        faulthandler.cancel_dump_traceback_later()
        if outcome == "FAIL" or (options.unasked and outcome != "ok"):
            print(f"{outcome} {name} --seeds {seed}: {said}\n    {case.text()}", flush=True)
        print("count", outcome, flush=True)
    print("over", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
