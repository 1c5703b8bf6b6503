"""Whole networks on GPUs: launches and clocks of a run, before a change and after it.

    python -m benchmarks.nets --only bert,resnet50 [--chips gfx942,gfx1100] [--batch 32]
    python -m benchmarks.nets --only bert --forms f16,int8,int4 --before ../other-checkout
    python -m benchmarks.nets --only convnext --without mgx-layout-convolution --steps

Each network is compiled, and a run with random inputs is priced launch by launch by the emulated
device, which executes the work-groups that one compute unit holds: a model's figures, none of
silicon. A launch or copy takes 2000 clocks, work-groups are whole, and no step is faster than
memory moves its weights, inputs and outputs, each once (tables of embeddings too). `before` is
another checkout with its native parts built, or, for --without, this one without some passes.

Forms: f16; int8 (calibrated with random inputs) and int4 (weights), with f16 between the products.
With --open, networks with symbols are compiled for any sizes. --cold leaves out the cache of
kernels and lists the seconds that one processor takes to compile. --persistent compares launches
with resident kernels: each is one launch, and takes the clocks of its phases, as the emulated
device prices their code in it, and of the barriers between them (benchmarks/priced_resident.py).
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks.net_models import MODELS, SIZES
from benchmarks.priced_net import LAUNCH_CLOCKS
from mgx_mlir import Precision, quantize
from test.dynamic_models import inputs_of
from test.onnx_models import half

HERE = Path(__file__).parent.parent
# The precisions of `quantize`; f16 is the model in f16.
FORMS = {
    "f16": None,
    "int8": Precision(products="int8", io={"*": "f16"}),
    "int4": Precision(weights="int4", rounding="nearest", io={"*": "f16"}),
}


@dataclass(frozen=True)
class Run:
    """A priced run: each step's node, launches and clocks; the seconds that compiling took."""

    steps: Sequence[tuple[str, int, float]]
    seconds: float

    @property
    def launches(self) -> int:
        """Launches and copies that HIP is given."""
        return sum(launches for _, launches, _ in self.steps)

    @property
    def kernels(self) -> float:
        """The clocks of all kernels and copies, without those of launches."""
        return sum(clocks for _, _, clocks in self.steps)

    @property
    def clocks(self) -> float:
        return self.kernels + LAUNCH_CLOCKS * self.launches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--only", default=",".join(MODELS), metavar="NAMES", help="networks, such as bert,vit")
    add("--forms", default="f16", metavar="NAMES", help=f"of {', '.join(FORMS)}")
    add("--chips", default="gfx942", metavar="NAMES")
    add("--batch", type=int, default=1, metavar="N", help="images or texts")
    add("--before", type=Path, metavar="FOLDER", help="a checkout to compare with")
    add("--without", default="", metavar="PASSES", help="compare with this one without passes")
    add("--persistent", action="store_true", help="compare with resident kernels")
    add("--open", action="store_true", help="networks with symbols: one program for any sizes")
    add("--cold", action="store_true", help="compile every kernel, and list the seconds")
    add("--steps", action="store_true", help="each step's launches and clocks too")
    options = parser.parse_args()
    if wrong := set(options.only.split(",")) - set(MODELS):
        parser.error(f"--only: {', '.join(wrong)}; there are: {', '.join(MODELS)}")
    compares = bool(options.before or options.without or options.persistent)
    columns = ("before", "after") if compares else ("",)
    title = "".join(f"{f'{c} launches':>17}{'kernels':>9}{'clocks':>9}" for c in columns)
    print(
        f"{'network':14}{'form':5}{'chip':8}{title}{'   ratio' if compares else ''}   (thousands)"
    )
    for name in options.only.split(","):
        for form in options.forms.split(","):
            _compare(name, form, options)
    return 0


def _compare(name: str, form: str, options: argparse.Namespace) -> None:
    """Prints the rows of a network in one form."""
    with tempfile.TemporaryDirectory() as folder:
        model = save(name, form, options.batch, Path(folder))
        for chip in options.chips.split(","):
            price = functools.partial(
                priced,
                model,
                chip,
                mode="full-dynamic" if options.open and name in SIZES else "default",
                floats="f32" if form == "f16" else "f16",
                cold=options.cold,
            )
            runs = [price(persistent=options.persistent)]
            if options.before or options.without or options.persistent:
                disable = options.without.split(",") if options.without else ()
                runs.insert(0, price(checkout=options.before or HERE, disable=disable))
            row = "".join(
                f"{run.launches:17}{run.kernels / 1e3:9.1f}{run.clocks / 1e3:9.1f}" for run in runs
            )
            ratio = f"{runs[-1].clocks / runs[0].clocks:8.3f}" if len(runs) > 1 else ""
            seconds = ", ".join(f"{run.seconds:.1f} s" for run in runs) if options.cold else ""
            print(f"{name:14}{form:5}{chip:8}{row}{ratio}   {seconds}", flush=True)
            if options.steps:
                for node, launches, clocks in runs[-1].steps:
                    print(f"    {clocks:10,.0f}  {launches:3}  {node}")


def save(name: str, form: str, batch: int, folder: Path) -> Path:
    """Saves a network in a form, and random inputs beside it; returns the model's file."""
    model, precision = MODELS[name](batch), FORMS[form]
    sizes = {"batch_size": batch} | SIZES.get(name, {})
    file = folder / "model.onnx"
    if precision is None:
        model = half(model)
        onnx.save(model, file)
    else:
        quantize(model, precision).save(file)
        model = onnx.load(file, load_external_data=False)
    np.savez(file.with_suffix(".npz"), **inputs_of(model, sizes))
    return file


def priced(
    model: Path,
    chip: str,
    mode: str = "default",
    floats: str = "f32",
    cold: bool = False,
    checkout: Path = HERE,
    disable: Sequence[str] = (),
    persistent: bool = False,
) -> Run:
    """A run of a model's file with the arrays beside it, as a checkout compiles it."""
    script = HERE / "benchmarks" / "priced_net.py"
    arguments = {
        "model": str(model), "inputs": str(model.with_suffix(".npz")), "chip": chip, "mode": mode,
        "floats": floats, "disable": list(disable), "cold": cold,
        **({"persistent": True} if persistent else {}),
    }  # fmt: skip
    # A script's own folder would come before the checkout, and an editable installation does.
    code = (
        "import runpy, sys; from importlib.machinery import PathFinder as f; "
        "sys.meta_path.remove(f); sys.meta_path.insert(0, f); "
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        cwd=checkout, env={**os.environ, "PYTHONPATH": ""}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return Run(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
