"""The sizes in a stored kernel agree, or have to be equal in a run."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir

import mgx_mlir
from mgx_mlir.artifact.contents import PortableKernel
from mgx_mlir.artifact.plan import Buffer, Plan, Step, TensorSpec
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.dialects import context
from mgx_mlir.errors import ArtifactError, UsageError
from mgx_mlir.rewriting.portable import kernel_to_bytecode, verify_portable
from mgx_mlir.rewriting.size_claims import size_claims
from mgx_mlir.sizes.arithmetic import Symbol


def tensor(*names: str) -> str:
    dims = ", ".join(f"{name} : 1 ... ?" for name in names)
    return f"tensor<{'?x' * len(names)}f32, #mgx.dims<[{dims}]>>"


def parsed(body: str, x: str, y: str, result: str) -> ir.Module:
    return ir.Module.parse(
        f"""mgx.kernel @kernel(%x: {x}, %y: {y}) -> {result}
            attributes {{arch = #mgx.arch<"gfxMIGX">, features = []}} {{
              {body}
              mgx.return %r : {result} }}""",
        context(),
    )


ADD = "%r = mgx.add %x, %y : {0}, {1} -> {2}"


@pytest.mark.parametrize(
    "names, claims",
    [("nnn", []), ("nmn", ["-m+n"]), ("nmm", ["-m+n"]), ("nnm", ["-m+n"])],
)
def test_elements_that_are_added_are_as_many(names: str, claims: list[str]) -> None:
    types = [tensor(name) for name in names]
    module = parsed(ADD.format(*types), *types)
    found = [str(claim) for claim in size_claims(verify_portable(module))]
    assert sorted({claim.replace("n-m", "-m+n") for claim in found}) == claims


def test_a_slice_ends_inside_of_its_operand() -> None:
    n, m = tensor("n"), tensor("m")
    body = "%r = mgx.slice %x axes = [0] starts = [0] ends = [9223372036854775807] : {0} -> {1}"
    module = parsed(body.format(n, m), n, n, m)
    claims = [str(claim) for claim in size_claims(verify_portable(module))]
    assert "max(m-n, 0)" in claims


def test_a_kernel_of_a_file_whose_sizes_do_not_agree_is_not_run() -> None:
    n, m = tensor("n"), tensor("m")
    kernel = verify_portable(module := parsed(ADD.format(n, m, n), n, m, n))
    stored = PortableKernel("k", kernel_to_bytecode(kernel), (), (), (1, 0))
    del module
    specs = tuple(TensorSpec(name, "float32", (-1 - i,)) for i, name in enumerate("xu"))
    buffers = (Buffer("input", -3), Buffer("input", -4, index=1), Buffer("output", -3))
    dims, formulas = (Symbol("n"), Symbol("m")), ("n", "m", "4*n", "4*m")
    output = TensorSpec("y", "float32", (-1,))
    plan = Plan(specs, (output,), 0, buffers, (Step(0, (0, 1, 2)),), dims, formulas)
    program = mgx_mlir.compile(Artifact.from_bytes(Artifact("a", plan, (stored,), {}).to_bytes()))

    def ones(size: int) -> np.ndarray:
        return np.ones(size, np.float32)

    assert program.run({"x": ones(5), "u": ones(5)})["y"].tolist() == [2] * 5
    with pytest.raises(ArtifactError, match=r"out of range|do not agree where"):
        program.run({"x": ones(1 << 20), "u": ones(1)})
    with pytest.raises(UsageError, match="'-m\\+n' is -8, which is out of range"):
        program.run({"x": ones(1), "u": ones(9)})
