"""A signature of an artifact, as the file holds it. trust.py makes and checks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


def statement(content_hash: str, code: Mapping[str, str]) -> bytes:
    """The bytes that a signature signs."""
    signed = {"code": dict(code), "content_hash": content_hash}
    return b"mgx-mlir artifact 1\0" + canonical_json(signed)


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
