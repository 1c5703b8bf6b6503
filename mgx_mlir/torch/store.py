"""Compiled graphs on disk, by the hash of all that they depend on.

A file is an artifact with code, without those weights that are the model's own tensors.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx

from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import Weight, chunks_of
from mgx_mlir.errors import MgxError
from mgx_mlir.finalizer.build import package_id
from mgx_mlir.torch.options import Options
from mgx_mlir.trust import check_own_folder, make_own_folder

_log = logging.getLogger(__name__)

_SUFFIX = ".mgx"
# The bytes of a folder at most, and how far it shrinks.
_MOST = 4096 << 20
_KEPT = 0.75
# The modules whose functions keep their meaning while their versions stay.
_KNOWN = ("_operator", "builtins", "math", "operator", "torch")


def key_of(module: fx.GraphModule, forms: Iterable[Any], arrays: Mapping[str, np.ndarray],
           options: Options, target: Target) -> str:  # fmt: skip
    """The key of a graph; '' for one whose functions may change. `forms` are the inputs'."""
    digest = hashlib.sha256()
    chosen = options.compile_options(False).to_json()
    said = (package_id(), torch.__version__, target.identity, chosen, list(forms), _state())
    digest.update(json.dumps(said, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        for chunk in chunks_of(array):
            digest.update(chunk)
    lines = list(_lines(module))
    if not all(lines):
        return ""
    digest.update("\n".join(lines).encode())
    return digest.hexdigest()


def _state() -> list[str]:
    """The state of torch that gives the nodes of a graph other types."""
    found = [str(torch.get_default_dtype())]
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            found.append(f"{device} {torch.get_autocast_dtype(device)}")
    return found


def _lines(module: fx.GraphModule) -> Iterable[str]:
    """The nodes of a graph, and of those inside of it, as text; '' for one without a text."""
    for node in module.graph.nodes:
        target = node.target
        if callable(target):
            home = getattr(target, "__module__", "") or "torch"
            if home.split(".")[0] not in _KNOWN:
                yield ""
            target = f"{home}.{getattr(target, '__qualname__', target)}.{target!s:.80}"
            target = target.split(" at 0x")[0]
        yield f"{node.name} = {node.op} {target}({node.args}, {node.kwargs})"
        if node.op not in ("get_attr", "call_module"):
            continue
        value = module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, fx.GraphModule):
            yield from _lines(value)
        elif not isinstance(value, torch.Tensor):
            yield ""


def load(folder: Path, key: str, arrays: Mapping[str, np.ndarray]) -> Artifact | None:
    """The artifact of a key, on the memory of the model's own tensors; None where there is none."""
    path = folder / (key + _SUFFIX)
    try:
        check_own_folder(folder)
        if not path.is_file():
            return None
        artifact = Artifact.open(path)
        os.utime(path)
    except (MgxError, OSError) as error:
        _log.warning("%s is not used: %s", path, error)
        return None
    own = {name: _own(weight, arrays[name]) for name, weight in artifact.weights.items()
           if name in arrays}  # fmt: skip
    return replace(artifact, weights={**artifact.weights, **own})


def save(folder: Path, key: str, artifact: Artifact, arrays: Mapping[str, np.ndarray]) -> None:
    """Keeps an artifact, whose weights of the model's own names lie in the model."""
    empty = {
        name: _own(weight, np.broadcast_to(np.zeros((), weight.dtype), weight.shape))
        for name, weight in artifact.weights.items()
        if name in arrays
    }
    try:
        make_own_folder(folder)
        check_own_folder(folder)
        kept = replace(artifact, weights={**artifact.weights, **empty})
        kept.save(folder / (key + _SUFFIX))
        _prune(folder)
    except (MgxError, OSError) as error:
        _log.warning("a compiled graph is not kept: %s", error)


def _own(weight: Weight, array: np.ndarray) -> Weight:
    return Weight(weight.key, weight.dtype, weight.shape, data=array.reshape(weight.shape))


def _prune(folder: Path) -> None:
    """Deletes the files that were used least recently where they are too many bytes."""
    found = []
    for path in folder.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    total = sum(size for _, size, _ in found)
    if total <= _MOST:
        return
    for _, size, path in sorted(found):
        if total <= _MOST * _KEPT:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
