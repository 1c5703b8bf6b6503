"""A signature of an artifact, as the file holds it. trust.py makes and checks it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_HEX = re.compile(r"(?:[0-9a-f]{2})+")


@dataclass(frozen=True)
class Signature:
    """An Ed25519 signature of a program and of the code objects that it had then.

    `key` are the 32 bytes of the public key in hexadecimal, `code` the code hashes by the target's
    identity, `value` the 64 bytes of the signature in hexadecimal.
    """

    key: str
    code: Mapping[str, str]
    value: str

    def to_json(self) -> dict[str, Any]:
        return {"key": self.key, "code": dict(self.code), "value": self.value}

    @classmethod
    def from_json(cls, record: Any) -> Signature:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(record, dict) or not isinstance(record.get("code"), dict):
            raise ValueError(f"a signature has a key, code hashes and a value, got {record!r:.80}")
        for name, size in (("key", 64), ("value", 128)):
            text = record.get(name)
            if not isinstance(text, str) or len(text) != size or not _HEX.fullmatch(text):
                raise ValueError(f"a signature's {name} is {size} hexadecimal digits")
        if not all(isinstance(digest, str) for digest in record["code"].values()):
            raise ValueError("a signature's code hashes are texts")
        return cls(record["key"], record["code"], record["value"])


def statement(content_hash: str, code: Mapping[str, str]) -> bytes:
    """The bytes that a signature signs."""
    signed = {"code": dict(code), "content_hash": content_hash}
    return b"mgx-mlir artifact 1\0" + canonical_json(signed)


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
