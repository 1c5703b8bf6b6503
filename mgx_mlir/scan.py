"""The modules of a folder: registries follow from the files that there are."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any


def module_names(package: str) -> list[str]:
    """The names of a package's modules, sorted; those with a leading underscore left out."""
    path = importlib.import_module(package).__path__
    return sorted(m.name for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))


def import_modules(package: str) -> None:
    """Imports every module of a package, so that each enters what it defines in its table."""
    for name in module_names(package):
        importlib.import_module(f"{package}.{name}")


def definitions(package: str, name: str) -> list[Any]:
    """The values of a global name, of every module of a package, at any depth, that has it."""
    path = importlib.import_module(package).__path__
    found = sorted(m.name for m in pkgutil.walk_packages(path, f"{package}."))
    modules = [importlib.import_module(module) for module in found]
    return [getattr(module, name) for module in modules if hasattr(module, name)]
