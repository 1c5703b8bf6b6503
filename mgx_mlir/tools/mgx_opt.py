"""mgx-opt: runs passes on MLIR files, as mlir-opt does.

Reads text or bytecode from a file or from standard input, runs the passes that the
command line names, in its order, and writes the module.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from mlir import ir, passmanager

from mgx_mlir.artifact.files import is_one_file, keep_inputs, write_atomically
from mgx_mlir.artifact.target import Target
from mgx_mlir.dialects import context as mgx_context
from mgx_mlir.errors import Edge, MgxError, UsageError
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.registry import Step, parse_pipeline, pass_class, pass_names
from mgx_mlir.pipelines.runner import run_pipeline
from mgx_mlir.rewriting.pass_base import PassContext
from mgx_mlir.suggest import instead
from mgx_mlir.tools.command import Parser, end_with, exit_code, until_pipe_closes
from mgx_mlir.tools.diagnostics import Diagnostics
from mgx_mlir.version import __version__

SPLIT_MARKER = "// -----"
BYTECODE_MAGIC = b"ML\xefR"
# LLVM's tools take -canonicalize for --canonicalize.
ONE_DASH = re.compile(r"^-[a-zA-Z][\w-]+(?==|$)")


def command() -> NoReturn:
    """Runs the command, and ends the process."""
    end_with(main)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs mgx-opt; returns the exit code."""
    return exit_code(
        "mgx-opt", lambda: _main(list(sys.argv[1:] if arguments is None else arguments))
    )


def _main(arguments: list[str]) -> int:
    parser = _parser()
    options, rest = parser.parse_known_args([ONE_DASH.sub(r"-\g<0>", a) for a in arguments])
    try:
        with Edge(""):
            if options.list_passes:
                return _list_passes()
            steps = _pipeline(options, rest)
            return until_pipe_closes(lambda: _process(options, steps))
    except UsageError as error:
        print(f"mgx-opt: {error}", file=sys.stderr)
        return 2
    except MgxError as error:
        print(f"mgx-opt: {error}", file=sys.stderr)
        return 1


def _parser() -> Parser:
    parser = Parser(
        prog="mgx-opt",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog=(
            "Passes run in the order of the command line: --mgx-NAME[=options] for a pass of\n"
            "mgx, --NAME[=options] for a pass of MLIR, --mgx-pipeline=NAME,... for a named\n"
            f"pipeline ({', '.join(PIPELINES)}). --list-passes lists the passes of mgx."
        ),
    )
    add = parser.add_argument
    add("--version", action="version", version=f"mgx-opt of mgx-mlir {__version__}")
    add("input", nargs="?", default="-", help="text or bytecode; '-' is standard input")
    add("-o", dest="output", default="-", metavar="FILE", help="where the result goes")
    add("--pass-pipeline", metavar="TEXT", help="a pipeline in MLIR's syntax")
    add("--arch", metavar="NAME", help="the chip that backend passes may know")
    add("--split-input-file", action="store_true", help=f"parts between '{SPLIT_MARKER}' lines")
    add("--verify-diagnostics", action="store_true", help="check expected-error comments")
    add("--verify-each", default="true", choices=["true", "false"], help="verify after each pass")
    add("--emit-bytecode", action="store_true", help="write bytecode")
    add("--mlir-print-op-generic", action="store_true", help="print the generic form")
    add("--mlir-print-debuginfo", action="store_true", help="print locations")
    for when in ("before", "after"):
        said = f"print the IR {when} these passes"
        add(
            f"--mlir-print-ir-{when}",
            type=lambda text: text.split(","),
            default=[],
            metavar="PASS,...",
            help=said,
        )
    add("--mlir-print-ir-before-all", action="store_true", help="print the IR before each pass")
    add("--mlir-print-ir-after-all", action="store_true", help="print the IR after each pass")
    add("--mlir-print-ir-after-change", action="store_true", help="only where it changed")
    add("--mlir-print-ir-module-scope", action="store_true", help="print the whole module")
    add("--mlir-timing", action="store_true", help="print the time of each pass")
    add("--mlir-elide-elementsattrs-if-larger", type=int, metavar="N", help="shorten constants")
    add("--run-reproducer", action="store_true", help="run the pipeline that the file names")
    add("--mlir-pass-pipeline-crash-reproducer", metavar="FILE", help="write it when a pass fails")
    add("--allow-unregistered-dialect", action="store_true", help="accept unknown operations")
    add("--dump-pass-pipeline", action="store_true", help="print the pipeline to standard error")
    add("--list-passes", action="store_true", help="list the passes of mgx and stop")
    return parser


def _list_passes() -> int:
    for name in pass_names():
        summary = (pass_class(name).__doc__ or "").strip().split("\n")[0]
        print(f"  --{name:<28} {summary}")
    return 0


def _pipeline(options: argparse.Namespace, rest: Sequence[str]) -> list[Step]:
    """The passes in the order in which the command line names them."""
    steps: list[Step] = []
    for name in (*options.mlir_print_ir_before, *options.mlir_print_ir_after):
        _check_pass(name)
    if options.pass_pipeline is not None:
        if rest:
            raise UsageError(f"--pass-pipeline and '{rest[0]}' exclude each other")
        return list(parse_pipeline(options.pass_pipeline))
    for argument in rest:
        if not argument.startswith("--"):
            raise UsageError(f"unexpected argument '{argument}'; see --help")
        name, equals, value = argument[2:].partition("=")
        hint = instead(f"--{name}", _parser()._option_string_actions, "", 0.85)
        if hint:  # no pass has such a name
            raise UsageError(f"there is no option --{name}; {hint}")
        if name == "mgx-pipeline":
            steps.extend(_named(value))
        elif name in pass_names():
            steps.append(pass_class(name).from_options(value))
        else:
            if name.startswith("mgx-"):
                _check_pass(name)
            steps.append(f"{name}{{{value}}}" if equals else name)
    return steps


def _check_pass(name: str) -> None:
    """Raises the error of `pass_class` for a name that is no pass of mgx or of MLIR."""
    if name in pass_names():
        return
    try:
        with mgx_context():
            passmanager.PassManager("builtin.module").add(name)
    except ValueError:
        pass_class(name)


def _named(names: str) -> list[Step]:
    steps: list[Step] = []
    for name in names.split(","):
        if name not in PIPELINES:
            hint = instead(name, PIPELINES, f"there are: {', '.join(PIPELINES)}")
            raise UsageError(f"there is no pipeline '{name}'; {hint}")
        steps.extend(PIPELINES[name].passes)
    return steps


def _process(options: argparse.Namespace, steps: list[Step]) -> int:
    given = [Path(options.input)] if options.input != "-" else []
    crash = options.mlir_pass_pipeline_crash_reproducer
    for where, output in (("-o", options.output), ("the reproducer", crash)):
        if output not in (None, "-"):
            keep_inputs(Path(output), given, where)
    if crash is not None and is_one_file(Path(crash), Path(options.output)):
        raise UsageError(f"-o {options.output} and the reproducer {crash} are one file; name two")
    data = _read(options.input)
    if options.run_reproducer:
        match = re.match(rb"// configuration: (.*)\n", data)
        if match is None:
            raise UsageError(f"{options.input} does not begin with '// configuration:'")
        steps = list(parse_pipeline(match[1].decode(errors="replace")))
    if options.dump_pass_pipeline:
        from mgx_mlir.pipelines.registry import print_pipeline

        print(f"Pass Manager with pipeline:\n{print_pipeline(steps)}", file=sys.stderr)
    is_text = not data.startswith(BYTECODE_MAGIC)
    parts: list[str | bytes] = [_text(data, options.input) if is_text else data]
    if options.split_input_file and isinstance(parts[0], str):
        parts = list(re.split(rf"(?m)^{SPLIT_MARKER}.*\n?", parts[0]))
    results: list[str | bytes] = []
    failed = False
    line = 1
    for part in parts:
        run = _Part(options, steps, part, line)
        result = run.run()
        failed |= result is None
        if result is not None:
            results.append(result)
        line += part.count("\n") + 1 if isinstance(part, str) else 0
    if not options.verify_diagnostics and not (failed and options.output != "-"):
        _write(options.output, results)
    return int(failed)


def _read(name: str) -> bytes:
    if name != "-":
        return Path(name).read_bytes()
    if sys.stdin is None:
        raise UsageError("standard input is closed; name a file")
    return sys.stdin.buffer.read()


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{'standard input' if name == '-' else name} is neither MLIR bytecode nor text in "
            f"UTF-8 (byte {error.start})"
        ) from error


class _Part:
    """One part of the input: parsed, run, printed, its diagnostics shown or checked."""

    def __init__(
        self, options: argparse.Namespace, steps: list[Step], source: str | bytes, line: int
    ) -> None:
        self.options = options
        self.steps = steps
        self.source = source
        name = "<stdin>" if options.input == "-" else options.input
        text = source if isinstance(source, str) else ""
        self.diagnostics = Diagnostics(name, text, line, shown=not options.verify_diagnostics)

    def run(self) -> str | bytes | None:
        context = mgx_context()
        context.emit_error_diagnostics = True  # to the handler, beside raising
        context.allow_unregistered_dialects = self.options.allow_unregistered_dialect
        handler = context.attach_diagnostic_handler(self.diagnostics.take)
        try:
            result = self._transform(context)
        finally:
            handler.detach()
        if self.options.verify_diagnostics:
            return b"" if self.diagnostics.are_expected() else None
        return result

    def _transform(self, context: ir.Context) -> str | bytes | None:
        with context:
            try:
                module = ir.Module.parse(self.source)
                self._run_passes(module)
            except ir.MLIRError:
                return None  # the diagnostics have been shown
            except UsageError:
                raise
            except MgxError as error:
                self._report(error)
                return None
            return self._print(module)

    def _report(self, error: MgxError) -> None:
        if isinstance(error.__cause__, ir.MLIRError):
            first, _, rest = str(error).partition(":")
            print(f"mgx-opt: {first}", file=sys.stderr)
            if "reproduce it with" in rest:
                print(rest[rest.index("reproduce it with") :], file=sys.stderr)
            return
        if self.options.verify_diagnostics:
            self.diagnostics.found.append((0, "error", str(error)))
        else:
            print(f"mgx-opt: {error}", file=sys.stderr)

    def _run_passes(self, module: ir.Module) -> None:
        options = self.options
        target = Target.get(options.arch) if options.arch else None
        crash = options.mlir_pass_pipeline_crash_reproducer
        named = options.mlir_print_ir_before or options.mlir_print_ir_after
        all_passes = options.mlir_print_ir_before_all or options.mlir_print_ir_after_all
        if self.steps:
            run_pipeline(
                module,
                self.steps,
                PassContext(target=target, kind=target.kind if target else "gpu"),
                configure=self._configure,
                watch=self._watch if named and not all_passes else None,
                reproducer=Path(crash) if crash else None,
            )

    def _watch(self, when: str, step: Step, module: ir.Operation) -> None:
        """Prints the IR before or after a pass that is named, to standard error."""
        options = self.options
        named = options.mlir_print_ir_before if when == "Before" else options.mlir_print_ir_after
        if set(named) & set(re.findall(r"[\w-]+", re.sub(r"\{.*?\}", "", str(step)))):
            text = module.get_asm()
            print(f"// -----// IR Dump {when} {step} //----- //\n{text}\n", file=sys.stderr)

    def _configure(self, manager: passmanager.PassManager) -> None:
        options = self.options
        manager.enable_verifier(options.verify_each == "true")
        before, after = options.mlir_print_ir_before_all, options.mlir_print_ir_after_all
        change = options.mlir_print_ir_after_change
        if before or after or change:
            manager.enable_ir_printing(
                print_before_all=before,
                print_after_all=after or change,
                print_after_change=change,
                print_module_scope=options.mlir_print_ir_module_scope,
            )
        if options.mlir_timing:
            manager.enable_timing()

    def _print(self, module: ir.Module) -> str | bytes:
        if self.options.emit_bytecode:
            import io

            stream = io.BytesIO()
            module.operation.write_bytecode(stream)
            return stream.getvalue()
        flags: dict[str, Any] = {
            "enable_debug_info": self.options.mlir_print_debuginfo,
            "print_generic_op_form": self.options.mlir_print_op_generic,
        }
        if self.options.mlir_elide_elementsattrs_if_larger is not None:
            flags["large_elements_limit"] = self.options.mlir_elide_elementsattrs_if_larger
        text: str = module.operation.get_asm(**flags)
        return text + "\n"


def _write(output: str, results: Sequence[str | bytes]) -> None:
    texts = [r if isinstance(r, bytes) else r.encode() for r in results]
    separator = f"{SPLIT_MARKER}\n".encode()
    data = separator.join(texts) if all(isinstance(r, str) for r in results) else b"".join(texts)
    if output == "-":
        stream: IO[bytes] = sys.stdout.buffer
        stream.write(data)
        stream.flush()
    else:
        write_atomically(Path(output), data)


if __name__ == "__main__":
    command()
