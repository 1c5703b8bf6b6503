"""The bytes of a cache entry: a code object behind its hash; a signature may stand before."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.files import read_whole
from mgx_mlir.errors import MgxError
from mgx_mlir.trust import Trust, public_bytes

MAGIC = b"MGXC\0\0\0\2"
# The most bytes of an entry: no code object of a kernel comes near it.
MAX_ENTRY = 1 << 28
SIGNED = b"MGXS\0\0\0\1"
# Magic, public key, signature of the entry that follows.
_SIGNATURE = struct.Struct("<8s32s64s")


def encode(code: CodeObject) -> bytes:
    """Magic, SHA-256 of the rest, size of the JSON, the JSON, the bytes."""
    text = json.dumps(code.to_json(), sort_keys=True, separators=(",", ":")).encode()
    content = len(text).to_bytes(8, "little") + text + code.data
    return MAGIC + hashlib.sha256(content).digest() + content


def decode(data: bytes) -> CodeObject:
    """The code object of an entry, signed or not. ValueError where it is damaged."""
    data = _unsigned(data)
    content = memoryview(data)[len(MAGIC) + 32 :]
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("not an entry of this version")
    if hashlib.sha256(content).digest() != data[len(MAGIC) : len(MAGIC) + 32]:
        raise ValueError("its content does not have its hash")
    size = int.from_bytes(content[:8], "little")
    try:
        record = json.loads(bytes(content[8 : 8 + size]))
        return CodeObject.from_json(record, bytes(content[8 + size :]))
    except (MgxError, RecursionError) as error:
        raise ValueError(f"its content is no code object: {error}") from error


def read_entry(path: Path) -> CodeObject:
    """The code object of an entry. OSError, or ValueError where it is damaged."""
    return decode(read_whole(path, MAX_ENTRY)[0])


def sign_entry(name: str, data: bytes, key: Any) -> bytes:
    """The entry called `name` with a signature by a private key, in place of an older one."""
    entry = _unsigned(data)
    signature = key.sign(_statement(name, entry))
    return _SIGNATURE.pack(SIGNED, public_bytes(key.public_key()), signature) + entry


def voucher(name: str, data: bytes, identity: str, trust: Trust) -> str:
    """The reason to trust an entry of code for a target, in words; '' for none."""
    if trust.everybody:
        return "trusted by consent"
    if not trust.needs_voucher(identity):
        return "GPU code, which needs nobody to vouch for it"
    if trust.key_files and data.startswith(SIGNED) and len(data) > _SIGNATURE.size:
        _, key, signature = _SIGNATURE.unpack_from(data)
        if trust.accepts(key.hex(), signature.hex(), _statement(name, _unsigned(data))):
            return f"signed by {trust.keys[key.hex()]}"
    return ""


def _unsigned(data: bytes) -> bytes:
    return data[_SIGNATURE.size :] if data.startswith(SIGNED) else data


def _statement(name: str, entry: bytes) -> bytes:
    return b"mgx-mlir cache entry 1\0" + name.encode() + hashlib.sha256(entry).digest()
