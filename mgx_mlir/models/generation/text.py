"""The words of a decoder's folder: its tokenizer, and the template of its chats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mgx_mlir.errors import ModelError, UsageError

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


def tokenizer_of(file: Path, what: str = "") -> Any:
    """The tokenizer of a tokenizer.json. Raises UsageError; `what` names the file in it."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            f"{what or file} needs the package tokenizers: pip install tokenizers"
        ) from None
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises no class of its own
        raise UsageError(f"{what} {file}: {error}".strip()) from None


class Text:
    """The tokenizer and the chat template of a folder, read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def tokenizer(self) -> Any:
        """That of tokenizer.json, by the package tokenizers. Raises UsageError."""
        file = self._path / "tokenizer.json"
        if not file.is_file():
            raise UsageError(f"{self._path} has no tokenizer.json; give token ids")
        return tokenizer_of(file)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self.tokenizer.encode(text).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self.tokenizer.decode(list(tokens)))

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of a chat by the template, up to the assistant's answer. Raises UsageError."""
        text = self.rendered(messages)
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def rendered(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """A chat as the template writes it."""
        if not self._template:
            raise UsageError(f"{self._path} has no chat template; give a prompt")
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise UsageError(
                "a chat template needs the package jinja2: pip install jinja2"
            ) from None
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = _now
        try:
            template = environment.from_string(self._template)
            return template.render(
                messages=list(messages), add_generation_prompt=True, **self._special
            )
        except TemplateError as error:
            raise UsageError(f"the chat template of {self._path}: {error}") from error

    @cached_property
    def _settings(self) -> Mapping[str, Any]:
        file = self._path / "tokenizer_config.json"
        if not file.is_file():
            return {}
        try:
            found = json.loads(file.read_text())
        except ValueError as error:
            raise ModelError(f"{file}: {error}") from error
        return found if isinstance(found, dict) else {}

    @cached_property
    def _template(self) -> str:
        file = self._path / "chat_template.jinja"
        if file.is_file():
            return file.read_text()
        found = self._settings.get("chat_template", "")
        if isinstance(found, list):  # several by name
            named = {one["name"]: one["template"] for one in found}
            found = named.get("default", "")
        return str(found or "")

    @property
    def has_template(self) -> bool:
        """Whether the folder says how a chat is written."""
        return bool(self._template)

    @cached_property
    def _special(self) -> dict[str, str]:
        """The special tokens that templates use, each a text or an object with one."""
        found = {name: self._settings.get(name) for name in _SPECIAL}
        return {
            name: str(value["content"] if isinstance(value, dict) else value)
            for name, value in found.items()
            if value
        }


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> str:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _now(form: str) -> str:
    from datetime import datetime

    return datetime.now().strftime(form)
