"""The edge of a command: its parser, its exit code, its log.

An error of the command line is one sentence, with the word that may have been meant.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mgx_mlir.settings import is_quiet
from mgx_mlir.suggest import instead
from mgx_mlir.text import STANDARD_OUTPUT, printable_output


def exit_code(name: str, work: Callable[[], int]) -> int:
    """The exit code of a command, 130 for Ctrl-C. Control characters in its output are escaped.

    What ends it from outside (SIGTERM, SIGHUP) does as Ctrl-C: nothing is left half-written.
    """
    with printable_output(), _ended_as_interrupted():
        try:
            return until_pipe_closes(work)
        except _Ended as ended:
            print(f"{name}: ended by {ended.signal.name}", file=sys.stderr)
            return 128 + ended.signal
        except KeyboardInterrupt:
            print(f"{name}: interrupted", file=sys.stderr)
            return 128 + signal.SIGINT
        except OSError as error:  # the output's, which has nowhere to go
            print(f"{name}: {error.filename}: {error.strerror}", file=sys.stderr)
            return 1


class _Ended(KeyboardInterrupt):
    """A signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.signal = signal.Signals(number)


@contextlib.contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """Within the block, signals that would end the process raise KeyboardInterrupt."""

    def end(number: int, frame: object) -> NoReturn:
        raise _Ended(number)

    caught = []
    if threading.current_thread() is threading.main_thread():
        ending = (signal.SIGTERM, signal.SIGHUP)
        caught = [one for one in ending if signal.getsignal(one) is signal.SIG_DFL]
    for one in caught:
        signal.signal(one, end)
    try:
        yield
    finally:
        for one in caught:
            signal.signal(one, signal.SIG_DFL)


def end_with(main: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code of `main`, and leaves its memory to the system.

    Threads are waited for, and exit functions run. What is left out, to take apart what MLIR and
    some hundred modules hold, is a tenth of the time of a short command.
    """
    code = 1

    def leave() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # it was said
                if stream is not None:
                    stream.flush()
        os._exit(code)

    atexit.register(leave)  # called last, as the first that is registered
    try:
        code = main()
    except SystemExit as ended:  # argparse's
        code = int(ended.code or 0)
    sys.exit(code)


def until_pipe_closes(work: Callable[[], int]) -> int:
    """The exit code of the work; 0 where the reader of its output went away."""
    try:
        try:
            return work()
        finally:  # also of --help, which ends the process
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            _drop_output()  # else the next flush fails, and is said, again
        raise


def _drop_output() -> None:
    """Sends the rest of the output, which has nowhere to go, to the null device."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# The levels of the log. 'none' is above all.
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING,
           "error": logging.ERROR, "none": logging.CRITICAL + 1}  # fmt: skip


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """The option that shows the log."""
    text = "say what each stage does; twice: each pass and each kernel too"
    parser.add_argument("-v", "--verbose", action="count", default=0, help=text)
    parser.add_argument("-q", "--quiet", action="store_true",
                        help="say nothing but results and errors: --log-level error")  # fmt: skip
    parser.add_argument("--log-level", choices=[*_LEVELS], metavar="LEVEL",
                        help=f"the least level of the log: {', '.join(_LEVELS)}")  # fmt: skip
    from mgx_mlir.tools.files import written

    parser.add_argument("--log-file", action="append", type=written, default=[], metavar="FILE",
                        help="write the log there, with times; repeatable")  # fmt: skip


@contextlib.contextmanager
def log(options: argparse.Namespace) -> Iterator[None]:
    """Within the block, the package's log goes to standard error, or to the options' files.

    Warnings alone are shown, or more where the options say so. Raises OSError for a file.
    """
    logger = logging.getLogger("mgx_mlir")
    before = logger.level
    by_count = ("warning", "info", "debug")[min(options.verbose, 2)]
    if options.quiet or (is_quiet() and not options.verbose):
        by_count = "error"
    with contextlib.ExitStack() as stack:
        for file in options.log_file or (None,):
            handler = _handler(file)
            stack.callback(handler.close)
            logger.addHandler(handler)
            stack.callback(logger.removeHandler, handler)
        stack.callback(logger.setLevel, before)
        logger.setLevel(_LEVELS[options.log_level or by_count])
        yield


def _handler(file: Path | None) -> logging.Handler:
    """Writes the log to a file, with times, or to standard error."""
    if file is None:
        shown: logging.Handler = logging.StreamHandler(sys.stderr)
        shown.setFormatter(logging.Formatter("mgx: %(message)s"))
        return shown
    written = _LogFile(file, encoding="utf-8")
    written.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return written


class _LogFile(logging.FileHandler):
    """A file of the log; where it cannot be written, that is said once, and the work goes on."""

    _failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        if not self._failed:
            error = sys.exc_info()[1]
            print(f"{self.baseFilename} cannot be written: {error}", file=sys.stderr)
        self._failed = True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors suggest verbs, flags and choices."""

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The options. Ends the process with exit code 2 where words are left over."""
        options, rest = self.parse_known_args(words)
        if rest:
            self._chosen(options)._refuse(rest)
        return options

    def _refuse(self, words: Sequence[str]) -> NoReturn:
        """Ends the process with an error about words that are no options."""
        flag = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
        if not flag:
            self.error(f"unexpected argument '{words[0]}'")
        if flag in self._option_string_actions:
            self.error(f"{flag} is behind '--', which ends the options; put it before")
        hint = instead(flag, self._option_string_actions, "")
        self.error(f"there is no option {flag}{hint and f'; {hint}'}")

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit code 2 and one line."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help)\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Writes a message; errors are not lost, as argparse would lose them."""
        (file or sys.stderr).write(message)

    def actions(self, options: argparse.Namespace) -> Iterator[argparse.Action]:
        """The arguments that the options went through, those of the chosen verbs among them."""
        for action in self._actions:
            yield action
            if isinstance(action, argparse._SubParsersAction):
                inner = action.choices.get(getattr(options, action.dest, None) or "")
                if isinstance(inner, Parser):
                    yield from inner.actions(options)

    def _chosen(self, options: argparse.Namespace) -> Parser:
        """The innermost parser that the options went through."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                inner = action.choices.get(getattr(options, action.dest, None) or "")
                if isinstance(inner, Parser):
                    return inner._chosen(options)
        return self

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        what = "verb" if isinstance(action, argparse._SubParsersAction) else "choice"
        hint = instead(str(value), known, f"there are: {', '.join(known)}")
        raise argparse.ArgumentError(action, f"there is no {what} '{value}'; {hint}")
