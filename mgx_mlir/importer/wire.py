"""Protobuf's wire format, read just far enough to leave large payloads where they are.

A model of gigabytes is mostly the payload of its initialisers. `strip` copies everything
else, which onnx's library then parses, and gives the location of each payload.
Source: protobuf.dev/programming-guides/encoding; field numbers from onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mgx_mlir.errors import ModelError

# Tensors with a smaller encoding are parsed with the model.
PAYLOAD_BYTES = 1024

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_INITIALIZER = 1, 5
_NODE_ATTRIBUTE, _ATTRIBUTE_TENSOR = 5, 5
# Packed floats and doubles, and raw bytes, are little-endian arrays as they stand.
_TENSOR_PAYLOADS = {4: "float_data", 9: "raw_data", 10: "double_data"}
# A tensor in the old unpacked encoding has one field for each element.
_MAX_TENSOR_FIELDS = 1000


@dataclass(frozen=True)
class Payload:
    """The location of a tensor's elements: bytes `offset` to `offset + nbytes`.

    The tensor is initialiser number `initializer`, or the tensor of attribute number
    `attribute` of node number `node`. `field` is the field of TensorProto.
    """

    field: str
    offset: int
    nbytes: int
    initializer: int = -1
    node: int = -1
    attribute: int = -1


class _Field(NamedTuple):
    number: int
    wire: int
    tag: int  # where the field's tag begins
    start: int
    end: int


def strip(data: memoryview) -> tuple[bytes, list[Payload]]:
    """A serialised ModelProto without its large payloads, and the location of each.

    Raises ModelError where the bytes are not protobuf.
    """
    payloads: list[Payload] = []
    fields = list(_fields(data, 0, len(data)))
    graphs = [f for f in fields if f.number == _MODEL_GRAPH and f.wire == _BYTES]
    if len(graphs) != 1:  # parsers merge repeated graphs: indices would not hold
        return bytes(data), payloads
    pieces = [
        _submessage(f, _strip_graph(data, f, payloads)) if f is graphs[0] else _raw(data, f)
        for f in fields
    ]
    return b"".join(pieces), payloads


def _strip_graph(data: memoryview, graph: _Field, payloads: list[Payload]) -> bytes:
    pieces = []
    counts = {_GRAPH_NODE: 0, _GRAPH_INITIALIZER: 0}
    for f in _fields(data, graph.start, graph.end):
        large = f.wire == _BYTES and f.end - f.start >= PAYLOAD_BYTES
        piece = None
        if large and f.number == _GRAPH_INITIALIZER:
            where = {"initializer": counts[f.number]}
            piece = _strip_tensor(data, f, payloads, where)
        elif large and f.number == _GRAPH_NODE:
            piece = _strip_node(data, f, payloads, counts[f.number])
        pieces.append(_raw(data, f) if piece is None else _submessage(f, piece))
        if f.number in counts:
            counts[f.number] += 1
    return b"".join(pieces)


def _strip_node(data: memoryview, node: _Field, payloads: list[Payload], index: int) -> bytes:
    pieces, attribute = [], 0
    for f in _fields(data, node.start, node.end):
        if f.number != _NODE_ATTRIBUTE or f.wire != _BYTES:
            pieces.append(_raw(data, f))
            continue
        parts = []
        for inner in _fields(data, f.start, f.end):
            piece = None
            if inner.number == _ATTRIBUTE_TENSOR and inner.wire == _BYTES:
                where = {"node": index, "attribute": attribute}
                piece = _strip_tensor(data, inner, payloads, where)
            parts.append(_raw(data, inner) if piece is None else _submessage(inner, piece))
        pieces.append(_submessage(f, b"".join(parts)))
        attribute += 1
    return b"".join(pieces)


def _strip_tensor(
    data: memoryview, tensor: _Field, payloads: list[Payload], where: dict[str, int]
) -> bytes | None:
    """The tensor without its payload; None where it has no single large one."""
    pieces: list[bytes] = []
    found: list[Payload] = []
    for count, f in enumerate(_fields(data, tensor.start, tensor.end)):
        if count > _MAX_TENSOR_FIELDS:
            return None
        name = _TENSOR_PAYLOADS.get(f.number)
        if name and f.wire == _BYTES and f.end - f.start >= PAYLOAD_BYTES // 2:
            found.append(Payload(name, f.start, f.end - f.start, **where))
        else:
            pieces.append(_raw(data, f))
    if len(found) != 1:
        return None
    payloads.append(found[0])
    return b"".join(pieces)


def _raw(data: memoryview, field: _Field) -> bytes:
    return bytes(data[field.tag : field.end])


def _submessage(field: _Field, body: bytes) -> bytes:
    return _encode(field.number << 3 | _BYTES) + _encode(len(body)) + body


def _encode(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise _malformed(at, "a number that does not end")


def _fields(data: memoryview, at: int, end: int) -> Iterator[_Field]:
    while at < end:
        tag = at
        key, at = _varint(data, at, end)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise _malformed(tag, "field number 0")
        start = at
        if wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire == _FIXED64:
            at += 8
        elif wire == _FIXED32:
            at += 4
        elif wire == _BYTES:
            length, start = _varint(data, at, end)
            at = start + length
        else:
            raise _malformed(tag, f"wire type {wire}")
        if at > end:
            raise _malformed(tag, f"a field that ends {at - end} bytes beyond its message")
        yield _Field(number, wire, tag, start, at)


def _malformed(at: int, what: str) -> ModelError:
    return ModelError(
        f"not an ONNX model, or a truncated one: {what} at byte {at}; "
        "check that the file was downloaded or written completely"
    )
