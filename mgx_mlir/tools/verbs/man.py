"""man: print the manual page of mgx; `mgx man | man -l -` shows it."""

from __future__ import annotations

import argparse

from mgx_mlir.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # it takes none


def run(options: argparse.Namespace) -> int:
    try:
        from argparse_manpage.manpage import Manpage
    except ImportError as error:
        raise UsageError("the manual page needs argparse-manpage; pip install it") from error
    from mgx_mlir.tools.mgx import parser_of, verb_names

    parser = parser_of(verb_names())
    page = Manpage(parser, _data={"manual_title": "mgx-mlir", "manual_section": "1"})
    print(str(page).replace(".SH NAME\nmgx\n", f".SH NAME\n{_name(parser)}\n", 1))
    return 0


def _name(parser: argparse.ArgumentParser) -> str:
    """The line by which `apropos` finds the page."""
    return str(parser.description).split("\n")[0].rstrip(".").replace("mgx: ", "mgx \\- ")
