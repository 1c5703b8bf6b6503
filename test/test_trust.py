"""Machine code of a file is never run without consent: each way to run it, and each consent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir import loader, trust
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.record import Artifact
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import ArtifactError, CompilerError, TargetError, UsageError, UserError
from mgx_mlir.finalizer.build import build_id
from mgx_mlir.finalizer.cache import Cache, cache_key
from mgx_mlir.finalizer.cache_entry import encode, sign_entry
from mgx_mlir.runtime.code_library import CodeLibrary
from mgx_mlir.settings import Settings
from mgx_mlir.tools import driver
from mgx_mlir.tools.mgx import main

Output = pytest.CaptureFixture[str]
X = {"x": np.array([-1.0, 2.0], np.float32)}
FOREIGN = 4242  # a user that runs no test


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    text = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}')


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "kernel-cache"))
    return tmp_path / "kernel-cache"


@pytest.fixture(scope="module")
def evil_elf(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """A shared object whose constructor writes a file, and that file."""
    folder = tmp_path_factory.mktemp("evil")
    trace = folder / "was-here"
    (folder / "evil.c").write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void run(void)"
        f'{{ FILE *f = fopen("{trace}", "w"); if (f) fclose(f); }}\n'
    )
    command = ["cc", "-shared", "-fPIC", "-o", str(folder / "evil.so"), str(folder / "evil.c")]
    subprocess.run(command, check=True)
    return (folder / "evil.so").read_bytes(), trace


@pytest.fixture
def trace(evil_elf: tuple[bytes, Path]) -> Path:
    evil_elf[1].unlink(missing_ok=True)
    return evil_elf[1]


@pytest.fixture(scope="module")
def finalized(model) -> Artifact:
    """The program with code for this machine, and for the least level of CPUs."""
    artifact = mgx_mlir.compile_to_bytecode(model)
    targets = ["cpu", executable_level(), "gfx942"]
    return mgx_mlir.finalize(artifact, targets, settings=Settings(cache_dir=None, jobs=1))


def executable_level() -> str:
    from mgx_mlir.artifact.target import executable_levels

    return executable_levels()[-1].name


def with_evil(artifact: Artifact, elf: bytes) -> Artifact:
    code = {
        arch: tuple(replace(code, data=elf) for code in found)
        for arch, found in artifact.code_objects.items()
    }
    return replace(artifact, code_objects=code)


@pytest.fixture
def evil(finalized: Artifact, evil_elf: tuple[bytes, Path], tmp_path: Path, trace: Path) -> Path:
    """An artifact whose machine code writes a file when it is loaded."""
    file = tmp_path / "evil.mgx"
    mgx_mlir.save(with_evil(finalized, evil_elf[0]), file)
    return file


@pytest.fixture
def key(tmp_path: Path) -> Path:
    trust.new_key(tmp_path / "key.pem")
    return tmp_path / "key.pem"


def public(key: Path) -> str:
    return str(key.with_suffix(".pub.pem"))


def entry_of(artifact: Artifact, target: str, elf: bytes) -> tuple[str, CodeObject]:
    """The evil entry that the cache would have for the artifact's kernel."""
    (kernel,), chip = artifact.kernels, Target.get(target)
    name = cache_key(kernel.sha256, chip.identity, build_id())
    return name, replace(artifact.code_objects[chip.identity][0], data=elf)


# The ways to run it ----------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "level"])
@pytest.mark.parametrize("verb", ["run", "perf"])
def test_verbs_make_the_code_again(verb: str, target: str, evil: Path, trace: Path) -> None:
    where = executable_level() if target == "level" else target
    runs = ["--runs", "1"] if verb == "perf" else []
    assert main([verb, str(evil), "--target", where, *runs]) == 0
    assert not trace.exists()


def test_verify_and_inspect_run_nothing(evil: Path, trace: Path) -> None:
    assert main(["verify", str(evil)]) == 2
    assert main(["check", str(evil)]) == 2
    assert main(["params", str(evil)]) == 0
    kernel = mgx_mlir.load(evil).kernels[0].name
    for question in ([], ["--json"], ["--why"], ["--kernel", kernel], ["--isa", kernel]):
        assert main(["inspect", str(evil), *question]) == 0
    assert main(["verify-signature", str(evil)]) == 1
    assert not trace.exists()


def test_references_tuning_and_the_driver_make_the_code_again(
    evil: Path, trace: Path, model, tmp_path: Path
) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["verify", str(tmp_path / "m.onnx"), "--reference", str(evil)]) == 0
    main(["tune", str(evil), "--target", "cpu", "-o", str(tmp_path / "tuned.mgx")])
    assert driver.main(["run", str(evil), "--cpu"]) == 0
    assert not trace.exists()


def test_parts_of_an_artifact_make_the_code_again(
    evil_elf: tuple[bytes, Path], trace: Path, tmp_path: Path
) -> None:
    text = """g (string[2] s, float[2] x) => (string[2] t, float[2] y)
        { t = StringNormalizer (s)  y = Relu (x) }"""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {text}')
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), ["cpu"])
    assert artifact.parts is not None
    mgx_mlir.save(with_evil(artifact, evil_elf[0]), tmp_path / "parts.mgx")
    given = {"s": np.array(["a", "b"]), **X}
    found = mgx_mlir.Model(tmp_path / "parts.mgx").run(given)
    assert found["y"].tolist() == [0, 2] and not trace.exists()
    with pytest.raises(ArtifactError, match="has no function"):
        mgx_mlir.Model(tmp_path / "parts.mgx", settings=Settings(trust_code=True)).run(given)
    assert trace.exists()


def test_finalize_replaces_code_that_nothing_vouches_for(
    evil: Path, trace: Path, evil_elf: tuple[bytes, Path]
) -> None:
    assert main(["finalize", str(evil), "--arch", f"cpu,{executable_level()}"]) == 0
    code = [code.data for found in mgx_mlir.load(evil).code_objects.values() for code in found]
    assert code.count(evil_elf[0]) == 1, "that of the GPU alone is left"
    assert main(["run", str(evil)]) == 0
    assert not trace.exists()


def test_python_makes_the_code_again(evil: Path, trace: Path) -> None:
    artifact = mgx_mlir.load(evil)
    for one in (artifact, Artifact.from_bytes(artifact.to_bytes())):
        (y,) = mgx_mlir.compile(one).run(X).values()
        assert y.tolist() == [0, 2]
    assert not trace.exists()


def test_the_host_refuses_code_of_a_file(evil: Path, trace: Path) -> None:
    artifact = mgx_mlir.load(evil)
    code = artifact.code_objects_for(Target.host_cpu())
    with pytest.raises(ArtifactError, match="nothing vouches for a code object"):
        mgx_mlir.Program(artifact.plan, code, artifact.weight_arrays())
    with pytest.raises(ArtifactError, match="trust_code=True"):
        CodeLibrary(code[0])
    assert not trace.exists()


def test_the_shared_cache_of_another_user_is_not_used(
    finalized: Artifact, evil_elf, trace: Path, tmp_path: Path, monkeypatch, caplog
) -> None:
    name, code = entry_of(finalized, "cpu", evil_elf[0])
    shared = tmp_path / "shared"
    Cache(shared).put(name, code)
    monkeypatch.setenv("MGX_CACHE_SHARED", str(shared))
    portable = replace(finalized, code_objects={})
    os.chmod(shared, 0o777)
    mgx_mlir.compile(portable).run(X)
    assert "others may write to" in caplog.text and not trace.exists()
    os.chmod(shared, 0o700)
    _give_to_another(monkeypatch, shared)
    mgx_mlir.compile(portable).run(X)
    assert not trace.exists()


def _give_to_another(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Makes the files below a folder those of another user, for who asks for owners."""
    owner_fault = trust.owner_fault

    def as_if(path: Path, status: os.stat_result, owners: tuple[int, ...]) -> str:
        if path.is_relative_to(folder):
            status = os.stat_result((*status[:4], FOREIGN, *status[5:]))
        return owner_fault(path, status, owners)

    for place in ("mgx_mlir.trust", "mgx_mlir.finalizer.cache"):
        monkeypatch.setattr(f"{place}.owner_fault", as_if)


def test_import_refuses_code_that_nobody_signed(
    finalized: Artifact, evil_elf, trace: Path, tmp_path: Path, monkeypatch, capsys: Output
) -> None:
    archive = tmp_path / "kernels.tar"
    name, code = entry_of(finalized, "cpu", evil_elf[0])
    other = Cache(tmp_path / "theirs")
    other.put(name, code)
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "theirs"))
    assert main(["cache", "export", str(archive)]) == 0
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "mine"))
    assert main(["cache", "import", str(archive)]) == 1
    said = capsys.readouterr().out
    assert "machine code that no trusted key signed" in said and "0 entries" in said
    mgx_mlir.compile(replace(finalized, code_objects={})).run(X)
    assert not trace.exists()
    Cache(tmp_path / "mine").clear()
    assert main(["cache", "import", str(archive), "--trust-code"]) == 0
    assert "1 trusted by consent" in capsys.readouterr().out
    with pytest.raises(ArtifactError, match="has no function"):
        mgx_mlir.compile(replace(finalized, code_objects={})).run(X)
    assert trace.exists()


def test_consent_once_vouches_for_nothing_later(
    finalized: Artifact, evil_elf, trace: Path, tmp_path: Path, monkeypatch
) -> None:
    shared = tmp_path / "shared"
    Cache(shared).put(*entry_of(finalized, "cpu", evil_elf[0]))
    _give_to_another(monkeypatch, shared)
    monkeypatch.setenv("MGX_CACHE_SHARED", str(shared))
    monkeypatch.setenv("MGX_TRUST", "all")
    artifact = mgx_mlir.finalize(replace(finalized, code_objects={}), "cpu")
    assert artifact.code_objects_for(Target.host_cpu())[0].data == evil_elf[0]
    monkeypatch.delenv("MGX_TRUST")
    mgx_mlir.compile(Artifact.from_bytes(artifact.to_bytes())).run(X)
    assert not trace.exists()


# The ways to consent ---------------------------------------------------------------------


def consents(evil: Path) -> dict[str, Callable[[pytest.MonkeyPatch], object]]:
    def by_variable(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MGX_TRUST", "all")
        mgx_mlir.compile(mgx_mlir.load(evil))

    return {
        "flag": lambda _: main(["run", str(evil), "--trust-code"]),
        "argument": lambda _: mgx_mlir.compile(mgx_mlir.load(evil), trust_code=True),
        "variable": by_variable,
    }


@pytest.mark.parametrize("way", ["flag", "argument", "variable"])
def test_with_consent_the_code_runs(way: str, evil: Path, trace: Path, monkeypatch) -> None:
    try:
        consents(evil)[way](monkeypatch)
    except ArtifactError as error:  # the constructor ran; there is no kernel beside it
        assert "has no function" in str(error)
    assert trace.exists()


def test_code_that_this_machine_made_is_taken(model, tmp_path: Path, monkeypatch) -> None:
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), ["cpu", executable_level()])
    mgx_mlir.save(artifact, tmp_path / "own.mgx")
    monkeypatch.setattr("mgx_mlir.finalizer.finalize_all", None)
    (y,) = mgx_mlir.compile(mgx_mlir.load(tmp_path / "own.mgx")).run(X).values()
    assert y.tolist() == [0, 2]


def test_a_pruned_cache_vouches_no_more(model, own_cache: Path, tmp_path: Path) -> None:
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), "cpu")
    (digest,) = artifact.code_hashes.values()
    assert trust.made_here(own_cache, digest) and not trust.made_here(own_cache, "0" * 64)
    assert main(["cache", "prune", "--to", "0"]) == 0
    assert not trust.made_here(own_cache, digest)


# Signatures ------------------------------------------------------------------------------


def test_code_that_a_trusted_key_signed_is_taken(
    finalized: Artifact, key: Path, tmp_path: Path, monkeypatch, capsys: Output
) -> None:
    file = tmp_path / "signed.mgx"
    mgx_mlir.save(finalized, file)
    assert main(["sign", str(file), "--key", str(key), "--trust-code"]) == 0
    assert main(["verify-signature", str(file), "--key", public(key)]) == 0
    assert "trusted (" in capsys.readouterr().out
    assert main(["inspect", str(file)]) == 0
    said = capsys.readouterr().out
    assert finalized.code_hashes["gfx942"] in said
    assert f"signed by     {trust.public_key(Path(public(key)))}" in said
    monkeypatch.setattr("mgx_mlir.finalizer.finalize_all", None)
    with pytest.raises(CompilerError):
        mgx_mlir.compile(mgx_mlir.load(file))  # it would be made again
    monkeypatch.setenv("MGX_TRUST", public(key))
    (y,) = mgx_mlir.compile(mgx_mlir.load(file)).run(X).values()
    assert y.tolist() == [0, 2]


def test_a_signature_is_of_this_code_and_program_alone(
    finalized: Artifact, evil_elf, key: Path, tmp_path: Path, trace: Path, monkeypatch
) -> None:
    signed = trust.sign(finalized, key)
    monkeypatch.setenv("MGX_TRUST", public(key))
    file = tmp_path / "forged.mgx"
    for forged in (
        replace(with_evil(finalized, evil_elf[0]), signatures=signed.signatures),
        replace(with_evil(signed, evil_elf[0]), options={"mode": "fast"}),
    ):
        mgx_mlir.save(forged, file)
        assert main(["verify-signature", str(file)]) == 1
        mgx_mlir.compile(mgx_mlir.load(file)).run(X)
    (signature,) = signed.signatures
    code = with_evil(finalized, evil_elf[0])
    renamed = replace(signature, code=code.code_hashes)
    assert not trust.is_sound(code, renamed)
    mgx_mlir.save(replace(code, signatures=(renamed,)), file)
    mgx_mlir.compile(mgx_mlir.load(file)).run(X)
    assert not trace.exists()


def test_a_signature_by_an_unknown_key_is_no_consent(
    evil: Path, key: Path, tmp_path: Path, trace: Path, monkeypatch
) -> None:
    trust.new_key(tmp_path / "mine.pem")
    assert main(["sign", str(evil), "--key", str(key), "--trust-code"]) == 0
    monkeypatch.setenv("MGX_TRUST", public(tmp_path / "mine.pem"))
    assert main(["verify-signature", str(evil)]) == 1
    mgx_mlir.compile(mgx_mlir.load(evil)).run(X)
    assert not trace.exists()


def test_targets_added_later_are_not_signed(finalized: Artifact, key: Path, tmp_path: Path) -> None:
    one = replace(finalized, code_objects={"gfx942": finalized.code_objects["gfx942"]})
    signed = trust.sign(one, key).with_code_objects(finalized.code_objects)
    mgx_mlir.save(signed, tmp_path / "x.mgx")
    assert main(["verify-signature", str(tmp_path / "x.mgx"), "--key", public(key)]) == 1
    keys = trust.Trust(key_files=(Path(public(key)),))
    assert trust.signers(signed, "gfx942", keys)
    assert not trust.signers(signed, Target.host_cpu().identity, keys)


def test_code_that_nothing_vouches_for_is_not_signed(
    evil: Path, key: Path, tmp_path: Path, capsys: Output, monkeypatch
) -> None:
    sign = ["sign", str(evil), "--key", str(key)]
    before = evil.read_bytes()
    assert main(sign) == 1
    said = capsys.readouterr().err
    assert "nothing vouches for its machine code for" in said
    assert "`mgx finalize FILE --arch" in said and "--trust-code signs it" in said
    assert evil.read_bytes() == before
    assert main([*sign, "--trust-code", "-o", str(tmp_path / "by-consent.mgx")]) == 0
    assert main(["finalize", str(evil), "--arch", f"cpu,{executable_level()},gfx942"]) == 0
    assert main(sign) == 0
    trust.new_key(tmp_path / "second.pem")
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "elsewhere"))
    second = ["sign", str(evil), "--key", str(tmp_path / "second.pem")]
    assert main(second) == 1
    monkeypatch.setenv("MGX_TRUST", public(key))
    assert main(second) == 0, "a trusted key signed it"


def test_a_cache_vouches_for_no_code_that_does_not_say_what_it_touches(
    model, own_cache: Path
) -> None:
    artifact = mgx_mlir.finalize(mgx_mlir.compile_to_bytecode(model), "cpu")
    (identity,) = artifact.code_objects
    silent = tuple(replace(c, interface=None) for c in artifact.code_objects[identity])
    artifact = replace(artifact, code_objects={identity: silent})
    trust.note_made(own_cache, artifact.code_hashes[identity])
    again = Artifact.from_bytes(artifact.to_bytes())
    assert not trust.admitted(again, trust.NOBODY, own_cache).code_objects


def test_signed_bytes_are_read_back_and_signed_anew(finalized: Artifact, key: Path) -> None:
    signed = trust.sign(finalized, key)
    again = Artifact.from_bytes(signed.to_bytes())
    assert again.signatures == signed.signatures and trust.is_sound(again, again.signatures[0])
    assert trust.sign(again, key).signatures == signed.signatures
    assert signed.content_hash == finalized.content_hash


def test_signed_entries_are_shared(
    finalized: Artifact, key: Path, tmp_path: Path, monkeypatch, capsys: Output
) -> None:
    shared, archive = tmp_path / "shared", tmp_path / "c.tar"
    monkeypatch.setenv("MGX_CACHE_DIR", str(shared))
    name, code = entry_of(finalized, "cpu", finalized.code_objects_for(Target.host_cpu())[0].data)
    Cache(shared).put(name, code)
    assert main(["cache", "sign", "--key", str(key)]) == 0
    assert main(["cache", "export", str(archive)]) == 0
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "mine"))
    monkeypatch.setenv("MGX_TRUST", public(key))
    assert main(["cache", "import", str(archive)]) == 0
    assert f"1 signed by {public(key)}" in capsys.readouterr().out
    _give_to_another(monkeypatch, shared)
    keys = trust.Trust(key_files=(Path(public(key)),))
    assert Cache(tmp_path / "b", shared=shared, trust=keys).get(name) == code
    assert Cache(tmp_path / "b", shared=shared).get(name) is None
    # The signature is of the entry under this name.
    data = sign_entry("0" * 64, encode(code), trust.private_key(key))
    (shared / name[:2] / f"{name}.mgxc").write_bytes(data)
    assert Cache(tmp_path / "b", shared=shared, trust=keys).get(name) is None


def test_keys_that_are_none_are_refused(tmp_path: Path, key: Path, evil: Path) -> None:
    (tmp_path / "no.pem").write_text("no key")
    for wrong in (tmp_path / "no.pem", tmp_path / "gone.pem", Path(public(key))):
        with pytest.raises(UsageError, match=wrong.name):
            trust.private_key(wrong)
    with pytest.raises(UsageError, match="holds no public key"):
        trust.public_key(key)
    with pytest.raises(UsageError, match="a key is never replaced"):
        trust.new_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match=r"MGX_TRUST names .*gone.pem, which is not there"):
        Settings.from_environment({"MGX_TRUST": str(tmp_path / "gone.pem")})
    assert main(["sign", str(evil)]) == 2


# GPUs, machines without a compiler, folders ----------------------------------------------


def test_gpu_code_needs_a_voucher_unless_a_setting_says_otherwise(evil: Path) -> None:
    artifact = mgx_mlir.load(evil)
    ours = lambda trusted: trust.admitted(artifact, trusted, None)  # noqa: E731
    assert not ours(trust.NOBODY).code_objects
    assert list(ours(trust.Trust(vouched_gpu_code=False)).code_objects) == ["gfx942"]
    assert len(ours(trust.Trust(everybody=True)).code_objects) == 3
    assert Settings.from_environment({}).vouched_gpu_code
    assert not Settings.from_environment({"MGX_GPU_CODE": "any"}).vouched_gpu_code
    with pytest.raises(UsageError, match="MGX_GPU_CODE is 'all'; use any or vouched"):
        Settings.from_environment({"MGX_GPU_CODE": "all"})
    again = mgx_mlir.finalize(artifact, "gfx942", settings=Settings())
    assert again.code_objects["gfx942"] != artifact.code_objects["gfx942"]


def test_without_a_compiler_consent_is_needed(
    evil: Path, trace: Path, finalized: Artifact, key: Path, monkeypatch
) -> None:
    monkeypatch.setattr(loader, "_has_compiler", lambda: False)
    artifact = mgx_mlir.load(evil)
    for target in ("cpu", executable_level()):
        with pytest.raises(UserError, match=r"nothing vouches .* no compiler .*trust_code=True"):
            mgx_mlir.compile(artifact, target)
    with pytest.raises(TargetError, match="has no compiler; add it where mgx-mlir is installed"):
        mgx_mlir.compile(replace(finalized, code_objects={}), "cpu")
    assert not trace.exists()
    signed = Artifact.from_bytes(trust.sign(finalized, key).to_bytes())
    keys = Settings(trusted_keys=(Path(public(key)),))
    for given in ({"trust_code": True}, {"settings": keys}):
        (y,) = mgx_mlir.compile(signed, "cpu", **given).run(X).values()
        assert y.tolist() == [0, 2]


def test_without_cryptography_the_error_says_so(key: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UserError, match="pip install cryptography"):
        trust.private_key(key)


def test_a_cache_that_others_can_change_is_refused(own_cache: Path, model, monkeypatch) -> None:
    mgx_mlir.compile(model)
    modes = {path.stat().st_mode & 0o777 for path in own_cache.rglob("*") if path.is_dir()}
    assert modes | {own_cache.stat().st_mode & 0o777} == {0o700}
    for mode in (0o777, 0o720):
        own_cache.chmod(mode)
        with pytest.raises(UserError, match=r"cache is refused: others may write .*MGX_CACHE_DIR"):
            mgx_mlir.compile(model)
    own_cache.chmod(0o755)
    mgx_mlir.compile(model)
    _give_to_another(monkeypatch, own_cache)
    with pytest.raises(UserError, match=f"belongs to user {FOREIGN}"):
        mgx_mlir.compile(model)
