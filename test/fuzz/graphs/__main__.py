"""Random valid ONNX graphs, compiled and run, against onnxruntime node by node.

    python -m test.fuzz.graphs [--targets cpu,gfx942,...] [--seed N] [--count N | --seconds N]

Each seed is one graph and runs on one of the targets, in turn, or with --all on each. GPUs are
emulated, in strict mode. With --mode full-dynamic some of the inputs' sizes are open; graphs that
this mode refuses pass. A failure is made small, printed with its seed, and kept in --keep.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

CHIPS = ("gfx942", "gfx90a", "gfx1030", "gfx1100", "gfx1201")
MODES = ("default", "default", "default", "default", "fast", "max", "debug")
OPEN_SIZES = "full-dynamic"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--targets", default=",".join(("cpu", *CHIPS)))
    add("--seed", type=int, default=0, help="the first seed")
    add("--count", type=int, help="how many seeds (default: until the time is over)")
    add("--seconds", type=float, default=60)
    add("--only", default="", help="kinds of nodes, comma-separated")
    modes = sorted({*MODES, OPEN_SIZES})
    add("--mode", choices=modes, help="of the compiler (default: a static one, by the seed)")
    add("--persistent", action="store_true", help="resident kernels where neighbours make one")
    add("--found", action="store_true", help="the graphs of found.py, by their numbers as seeds")
    add("--all", action="store_true", help="each seed on every target")
    add("--keep", type=Path, help="a folder for failing models")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    return supervise(options)


def supervise(options: argparse.Namespace) -> int:
    """Runs workers; one that dies is a finding, and the next goes on after its seed."""
    environment = {
        **os.environ,
        "MGX_EMULATED_DEVICES": ",".join(CHIPS),
        "MGX_EMULATOR_STRICT": "1",
        "MGX_HIP": "emulated",
        "MGX_JOBS": "1",
    }
    deadline = time.monotonic() + options.seconds
    seed, end, failures = options.seed, None, 0
    if options.count is not None:
        end, deadline = seed + options.count, time.monotonic() + 1e9
    while time.monotonic() < deadline and (end is None or seed < end):
        command = [
            sys.executable,
            "-m",
            "test.fuzz.graphs",
            "--worker",
            f"--seed={seed}",
            f"--targets={options.targets}",
            f"--only={options.only}",
        ]
        command += [f"--count={min(100, (end or 1 << 60) - seed)}"]
        command += ["--all"] if options.all else []
        command += ["--persistent"] if options.persistent else []
        command += ["--found"] if options.found else []
        command += [f"--keep={options.keep}"] if options.keep else []
        command += [f"--mode={options.mode}"] if options.mode else []
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        last, done = "", False
        for line in worker.stdout:
            if line.startswith("seed "):
                last = line.strip()
                seed = int(line.split()[1]) + 1
            elif line.startswith("done"):
                done = True
            else:
                failures += line.startswith("FAIL")
                print(line, end="", flush=True)
            if time.monotonic() > deadline:
                worker.kill()
                done = True
                break
        worker.wait()
        if not done:
            failures += 1
            print(f"FAIL {last}: the process ended with {worker.returncode}", flush=True)
        if not last:
            break  # it does not even begin
    print(f"seeds {options.seed} to {seed - 1}: {failures} failures")
    return int(failures > 0)


def work(options: argparse.Namespace) -> int:
    import warnings

    from mgx_mlir.errors import DeviceError
    from mgx_mlir.settings import Settings
    from test.fuzz.command import reset_devices
    from test.fuzz.graphs.check import problem, random_case
    from test.fuzz.graphs.found import found
    from test.fuzz.graphs.smaller import smaller

    warnings.simplefilter("ignore")
    settings = Settings.from_environment()
    targets = options.targets.split(",")
    for seed in range(options.seed, options.seed + options.count):
        case = found(seed) if options.found else random_case(seed, options.only)
        chosen = targets if options.all else [targets[seed % len(targets)]]
        mode = options.mode or MODES[seed // len(targets) % len(MODES)]
        for target in chosen:
            print(f"seed {seed} {target} {mode}", flush=True)

            def wrong(case, target=target, mode=mode):
                try:
                    return problem(case, target, settings, mode, options.persistent)
                except Exception as error:
                    if isinstance(error, DeviceError):
                        reset_devices()
                    return f"{type(error).__name__}: {str(error)[:1500]}"

            what = wrong(case)
            if not what:
                continue
            print(f"FAIL seed {seed} {target} {mode}: {what}", flush=True)
            small = smaller(case, wrong)
            print(f"  made small: {wrong(small)}\n{small.text()}", flush=True)
            if options.keep:
                import onnx

                options.keep.mkdir(parents=True, exist_ok=True)
                onnx.save(small.model(), options.keep / f"{seed}-{target}.onnx")
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
