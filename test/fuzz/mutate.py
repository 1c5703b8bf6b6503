"""Damaged artifacts whose hashes are right: what a hostile writer can make."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

from mgx_mlir.artifact.signature import canonical_json
from mgx_mlir.artifact.writer import HEADER, MAGIC

_NUMBERS = (0, 1, -1, 2, 63, 64, 255, 4096, 1 << 31, 1 << 46, 1 << 48, 1 << 63, 1 << 70)
_VALUES: tuple[Any, ...] = (
    *_NUMBERS,
    1.5,
    "",
    "x",
    "../x",
    "/etc/passwd",
    "\0",
    [],
    {},
    None,
    True,
)
_BYTES = (0, 1, 3, 5, 7, 0x7F, 0x80, 0xFF)


def bytecode(data: bytes, rng: random.Random) -> bytes:
    """A kernel's bytes with a few changed, taken out, put in or copied."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, how = rng.randrange(4, max(5, len(changed))), rng.randrange(5)
        at = min(at, len(changed) - 1)
        if how == 0:
            changed[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            changed[at] = rng.choice(_BYTES)
        elif how == 2:
            del changed[at : at + rng.randrange(1, 8)]
        elif how == 3:
            changed[at:at] = rng.randbytes(rng.randrange(1, 8))
        else:
            source = rng.randrange(len(changed))
            changed[at : at + 4] = changed[source : source + 4]
    return bytes(changed)


def artifact(data: bytes, rng: random.Random) -> bytes:
    """An artifact changed in its bytes, its manifest or its sections; mostly with right hashes."""
    if rng.random() < 0.1:
        return bytecode(data, rng)
    manifest, body = split(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_CHANGES)(manifest, body, rng)
    version = rng.choice(((1, 0), (1, 1)))
    return joined(manifest, body, rng.random() < 0.9, version)


def split(data: bytes) -> tuple[dict[str, Any], list[bytearray]]:
    """The manifest of an artifact and the bytes of its sections."""
    size = HEADER.unpack_from(data)[4]
    manifest = json.loads(data[HEADER.size : HEADER.size + size])
    sections = [
        bytearray(data[s["offset"] : s["offset"] + s["bytes"]]) for s in manifest["sections"]
    ]
    return manifest, sections


def uncounted(data: bytes) -> bytes:
    """The artifact without the counts of operations, which its content hash leaves out."""
    manifest, body = split(data)

    def drop(value: Any) -> None:
        if isinstance(value, dict):
            value.pop("flops", None)
            value.pop("work", None)
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, dict | list):
                drop(inner)

    drop([manifest["plan"], manifest.get("parts", {})])
    return joined(manifest, body)


def joined(
    manifest: dict[str, Any],
    body: list[bytearray],
    honest: bool = True,
    version: tuple[int, int] = (1, 1),
) -> bytes:
    """The file. With `honest`, its sizes, offsets and hashes are made right."""
    records = manifest.get("sections")
    listed = manifest.get("weights")
    weights = (
        [w.get("section") for w in listed or [] if isinstance(w, dict)]
        if isinstance(listed, list)
        else []
    )
    text = b""
    for _ in range(3):
        end = HEADER.size + len(text)
        pairs = zip(records if isinstance(records, list) else [], body)  # noqa: B905
        for number, (record, content) in enumerate(pairs):
            if honest and isinstance(record, dict):
                alignment = 4096 if number in weights else 64
                record["offset"] = -(-end // alignment) * alignment
                record["bytes"] = len(content)
                record["sha256"] = hashlib.sha256(content).hexdigest()
                end = record["offset"] + len(content)
        if honest:
            _repair(manifest)
        text = canonical_json(manifest)
    output = bytearray(text)
    for record, content in zip(records if isinstance(records, list) else [], body):  # noqa: B905
        offset = record.get("offset") if isinstance(record, dict) else None
        if isinstance(offset, int) and 0 <= offset - HEADER.size - len(output) <= 1 << 20:
            output += bytes(offset - HEADER.size - len(output)) + content
    total = HEADER.size + len(output)
    digest = hashlib.sha256(text).digest()
    return HEADER.pack(MAGIC, *version, HEADER.size, len(text), total, digest) + bytes(output)


def _repair(manifest: dict[str, Any]) -> None:
    """The hashes of kernels' and weights' bytes go into the hash of the content."""
    try:
        hashes = [s["sha256"] for s in manifest["sections"]]
        content = {
            "dialect": max(k["dialect"] for k in manifest["kernels"]),
            "kernels": [hashes[k["section"]] for k in manifest["kernels"]],
            "options": manifest["options"],
            "pipelines": manifest["pipelines"],
            "plan": manifest["plan"],
            "weights": {w["key"]: w["sha256"] for w in manifest["weights"]},
        }
        if "parts" in manifest:
            parts = dict(manifest["parts"])
            content["parts"] = {**parts, "model": hashes[parts["section"]]}
            del content["parts"]["section"]
        manifest["content_hash"] = hashlib.sha256(canonical_json(content)).hexdigest()
    except (IndexError, KeyError, TypeError, ValueError):
        return  # the manifest's form is what is wrong


def _change_value(manifest: dict[str, Any], body: list[bytearray], rng: random.Random) -> None:
    holder: Any = manifest
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(holder[key], dict | list) and rng.random() < 0.85:
            holder = holder[key]
            continue
        how = rng.randrange(4)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder[key], int):
            holder[key] += rng.choice((-1, 1, 64, 4096))
        elif how == 2 and isinstance(holder, list):
            copied = json.dumps(holder[key])  # deepcopy's calls nest twice as deep
            holder.extend(json.loads(copied) for _ in range(rng.choice((1, 2, 50))))
        else:
            holder[key] = copy.deepcopy(rng.choice(_VALUES))
        return


def _change_section(manifest: dict[str, Any], body: list[bytearray], rng: random.Random) -> None:
    if body:
        number = rng.randrange(len(body))
        if len(body[number]) > 4:
            body[number] = bytearray(bytecode(bytes(body[number]), rng))


def _deepen(manifest: dict[str, Any], body: list[bytearray], rng: random.Random) -> None:
    value: Any = 1
    for _ in range(rng.choice((10, 100, 600))):
        value = [value]
    manifest[rng.choice(("options", "plan", "weights", "extra"))] = {"a": value}


_Change = Callable[[dict[str, Any], list[bytearray], random.Random], None]
_CHANGES: tuple[_Change, ...] = (_change_value, _change_value, _change_section, _deepen)
