"""Code objects of one problem, by each of the compilers that `benchmarks.kernels` compares.

None of them needs a GPU. A maker gives the launches that solve the problem, each with its
code object; where it offers several schedules, one list for each.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks.kernel_cases import Case, TritonCall

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Kernel:
    """One launch: `arguments` holds None for a pointer, else the number that is passed."""

    image: bytes
    function: str
    grid: Dimensions
    block: Dimensions
    arguments: tuple[int | float | None, ...]
    lds_bytes: int = 0
    why: str = ""


def ours(case: Case) -> list[list[Kernel]]:
    """The kernels that this compiler makes of the model."""
    from mgx_mlir.codegen.gpu.kernel import compiler

    return _compiled(case, compiler)


def generic(case: Case) -> list[list[Kernel]]:
    """The same on the generic path alone."""
    from mgx_mlir.codegen.gpu.builders.binary import code_object
    from mgx_mlir.codegen.gpu.loops import loops_program

    def compiler(kernel: Any) -> Any:
        program = loops_program(kernel)
        return lambda target: code_object(program, target)

    return _compiled(case, compiler)


def _compiled(case: Case, compiler: Callable[[Any], Any]) -> list[list[Kernel]]:
    """The launches of a model's kernels, each compiled for a target by what `compiler` gives."""
    from mgx_mlir.artifact.target import Target
    from mgx_mlir.compiler import CompileOptions, Report, import_model, optimize
    from mgx_mlir.rewriting.graph import kernels

    options = CompileOptions()
    graph = import_model(case.model(), options)
    optimize(graph, options, Report())
    found = {}
    for kernel in kernels(graph.module):
        name = str(kernel.operation.attributes["sym_name"]).strip('"')
        found[name] = compiler(kernel)(Target.get(case.chip))
    launched = re.findall(r"mgx\.launch @(\w+)", str(graph.module))
    return [
        [
            Kernel(
                code.data,
                launch.function,
                launch.grid,
                launch.block,
                (None,) * len(launch.arguments),
                why=code.why,
            )
            for name in launched
            for code in [found[name]]
            for launch in code.launches
        ]
    ]


def triton(case: Case) -> list[list[Kernel]]:
    """Triton's kernel in each of the case's schedules; nothing where there is none."""
    try:
        import triton as _  # noqa: F401
    except ImportError:
        return []
    return [[_triton_kernel(call, case.chip)] for call in case.triton]


def _triton_kernel(call: TritonCall, chip: str) -> Kernel:
    import triton as compiler
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from benchmarks import triton_kernels

    lanes = 64 if chip.startswith("gfx9") else 32
    types = {str: "*fp16", int: "i32", float: "fp32"}
    signature = {name: types[type(value)] for name, value in call.arguments.items()}
    pointers = [i for i, value in enumerate(call.arguments.values()) if value == "*"]
    # Triton's launcher would find these out: 16-byte aligned pointers to less than 2 GiB, for which
    # it takes buffer instructions, and sizes that 16 divides.
    sizes = [i for i, v in enumerate(call.arguments.values()) if isinstance(v, int) and v % 16 == 0]
    source = ASTSource(
        getattr(triton_kernels, call.function),
        signature=signature | dict.fromkeys(call.constants, "constexpr"),
        constexprs=call.constants,
        attrs={(i,): [["tt.divisibility", 16]] for i in sizes}
        | {(i,): [["tt.divisibility", 16], ["tt.pointer_range", 32]] for i in pointers},
    )
    options = {"num_warps": call.warps, **call.options}
    made = compiler.compile(source, target=GPUTarget("hip", chip, lanes), options=options)
    numbers = tuple(None if v == "*" else v for v in call.arguments.values())
    tile = "x".join(str(n) for name, n in call.constants.items() if name.startswith("BLOCK"))
    return Kernel(
        made.asm["hsaco"],
        made.metadata.name,
        (*call.grid, 1, 1)[:3],
        (call.warps * lanes, 1, 1),
        (*numbers, None, None),  # and Triton's own: global and profile scratch
        made.metadata.shared,
        ", ".join([tile, f"{call.warps} waves", *(f"{k} {v}" for k, v in call.options.items())]),
    )


_EXPORT = re.compile(
    r"hal\.executable\.export public @([\w$]+).*?\{(.*?)\} <workgroup_size = \[([^\]]*)\]"
    r".*?llvm\.func @\1\((.*?)\) attributes",
    re.DOTALL,
)


def iree(case: Case) -> list[list[Kernel]]:
    """IREE's dispatches of the model; nothing where it is not installed or fails."""
    importer, compiler = (
        shutil.which(tool, path=str(Path(sys.executable).parent))
        for tool in ("iree-import-onnx", "iree-compile")
    )
    if importer is None or compiler is None:
        return []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, source, text = folder / "m.onnx", folder / "m.mlir", folder / "targets.mlir"
        onnx.save(case.model(), model)
        target = ["--iree-hal-target-device=hip", f"--iree-rocm-target={case.chip}"]
        dump = f"--iree-hal-dump-executable-files-to={folder}"
        steps = (
            [importer, str(model), "-o", str(source)],
            [compiler, str(source), *target, "--compile-to=executable-targets", "-o", str(text)],
            [compiler, str(source), *target, dump, "-o", str(folder / "m.vmfb")],
        )
        for command in steps:
            if subprocess.run(command, capture_output=True).returncode:
                return []
        images = {path.name: path.read_bytes() for path in folder.glob("*.hsaco")}
        return [_dispatches(text.read_text(), images)]


def _dispatches(text: str, images: dict[str, bytes]) -> list[Kernel]:
    found = []
    for function, count, block, arguments in _EXPORT.findall(text):
        constants = dict(re.findall(r"%(\w+) = arith\.constant (\d+) : index", count))
        names = re.findall(r"%(\w+)", count.partition("hal.return")[2])
        grid = [int(constants[n]) for n in names]
        threads = [int(number) for number in re.findall(r"(\d+) : index", block)]
        image = next(data for data in images.values() if function.encode() in data)
        kinds = [None if "!llvm.ptr" in a else 0 for a in re.split(r", (?=%arg)", arguments)]
        x, y, z = grid
        tx, ty, tz = threads
        found.append(Kernel(image, function, (x, y, z), (tx, ty, tz), tuple(kinds)))
    return found


MAKERS = {"mgx": ours, "generic": generic, "triton": triton, "iree": iree}
