# Rewrites the relative imports of TableGen's Python code: `._ods_common` and `..ir`
# are neighbours of upstream's dialects only.
file(READ "${INPUT}" text)
string(REPLACE "from ._ods_common import" "from mlir.dialects._ods_common import" text "${text}")
string(REPLACE "from ..ir import" "from mlir.ir import" text "${text}")
file(WRITE "${OUTPUT}" "${text}")
