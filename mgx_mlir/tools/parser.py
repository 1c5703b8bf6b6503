"""The parser of command lines: an error is one sentence, with the word that may have been meant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from mgx_mlir.suggest import instead


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
        hint = instead(flag, self._option_string_actions, "")
        self.error(f"there is no option {flag}{hint and f'; {hint}'}")

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit code 2 and one line."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help)\n")

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
