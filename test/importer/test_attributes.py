"""Every attribute that an operator's definition has is read by its converter, or refused.

A node that states an attribute which nothing reads is refused when it is imported. Here the
names that converters read are compared with the definitions, so that each refusal is known.
"""

from __future__ import annotations

import re

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as onnxruntime_state
import pytest

from mgx_mlir.importer import operators
from mgx_mlir.importer.node import WITHOUT_EFFECT
from mgx_mlir.importer.registry import Operator, is_listed
from mgx_mlir.tools.converters import strings_read

# Attributes that no converter reads, so that nodes which state them are refused, and why.
STRINGS = "strings have no form on a device; where the host takes them, it reads them itself"
LATER = "not of the releases of onnxruntime before 1.32; nothing writes it yet"
REFUSED: dict[tuple[str, str], str] = {
    ("Constant", "sparse_value"): "made dense before",
    ("Constant", "value_string"): STRINGS,
    ("Constant", "value_strings"): STRINGS,
    ("GroupQueryAttention", "k_norm_epsilon"): LATER,
    ("GroupQueryAttention", "q_norm_epsilon"): LATER,
    ("LinearClassifier", "classlabels_strings"): STRINGS,
    ("MoE", "swiglu_limit_after_activation"): LATER,
    ("OneHotEncoder", "cats_strings"): STRINGS,
    ("QMoE", "swiglu_limit_after_activation"): LATER,
    ("TreeEnsembleClassifier", "classlabels_strings"): STRINGS,
}

TABLE = [row for row in operators() if row.converter is not None]


def attributes_of(row: Operator) -> set[str]:
    """The attributes of every version that the converter takes."""
    if row.domain == "com.microsoft":
        schemas = onnxruntime_state.get_all_operator_schema()
        found = [s for s in schemas if (s.domain, s.name) == (row.domain, row.name)]
    else:
        oldest, newest = row.versions
        found = [
            s
            for s in onnx.defs.get_all_schemas_with_history()
            if (s.domain, s.name) == (row.domain, row.name) and oldest <= s.since_version <= newest
        ]
    assert found or not is_listed(row), f"no definition of {row.name} is known"
    return {name for schema in found for name in schema.attributes}


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.domain or 'onnx'}-{row.name}")
def test_attributes_are_read_or_known_to_be_refused(row):
    read, patterns = strings_read(row.converter)
    attributes = attributes_of(row)
    wanted = attributes - read - WITHOUT_EFFECT
    unread = {name for name in wanted if not any(re.fullmatch(p, name) for p in patterns)}
    refused = {name for operator, name in REFUSED if operator == row.name}
    assert unread == {
        name for name in refused if name in attributes or REFUSED[row.name, name] != LATER
    }
