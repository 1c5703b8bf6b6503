"""Consent: whose machine code may run here. docs/trust.md has the threat model.

Machine code in a file is anybody's. It is taken where this machine's cache says that it was made
here, where a trusted key signed it, or where the user consents; else it is made again from the
portable kernels. Keys are Ed25519, in PEM files as openssl writes them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mgx_mlir.artifact.contents import Contents
from mgx_mlir.artifact.signature import Signature, statement
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import UsageError, UserError

if TYPE_CHECKING:
    from mgx_mlir.settings import Settings

Program = TypeVar("Program", bound=Contents)
# The most bytes of a file that holds a key.
_LARGEST_KEY = 1 << 20
CONSENT = "trust_code=True, or MGX_TRUST=all"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Trust:
    """Whose code may run: everybody's, or that of the keys in `key_files` (files, or folders).

    GPU code needs a voucher as CPU code does, unless `vouched_gpu_code` is off.
    """

    everybody: bool = False
    key_files: tuple[Path, ...] = ()
    vouched_gpu_code: bool = True

    @staticmethod
    def of(settings: Settings) -> Trust:
        """The trust that the settings say."""
        return Trust(settings.trust_code, settings.trusted_keys, settings.vouched_gpu_code)

    def needs_voucher(self, identity: str) -> bool:
        """Whether code for a target, by its identity, runs only where something vouches for it."""
        if self.everybody:
            return False
        return self.vouched_gpu_code or not _is_gpu(identity.partition(":")[0])

    @cached_property
    def keys(self) -> dict[str, Path]:
        """The trusted public keys, 32 bytes in hexadecimal each, and the file of each.

        Raises UsageError for a file that holds no such key, UserError without `cryptography`.
        """
        files: list[Path] = []
        for path in self.key_files:
            files += sorted(path.glob("*.pem")) if path.is_dir() else [path]
        return {public_key(file): file for file in files}

    def accepts(self, key: str, value: str, message: bytes) -> bool:
        """Whether `value` is the signature of `message` by `key`, and the key is trusted."""
        return key in self.keys and is_signature(key, value, message)


NOBODY = Trust()


def admitted(artifact: Program, trust: Trust, cache: Path | None) -> Program:
    """The artifact without the code objects that nothing vouches for.

    `cache` is the folder of the kernel cache. Raises UserError where others can write to it.
    """
    code = {}
    for identity, found in artifact.code_objects.items():
        if all(one.trusted for one in found):
            code[identity] = found
        elif (
            not trust.needs_voucher(identity)
            or _made_here(artifact, identity, cache)
            or signers(artifact, identity, trust)
        ):
            code[identity] = tuple(replace(one, trusted=True) for one in found)
        else:
            _log.info("%s: nothing vouches for its code for %s", artifact.name, identity)
    return replace(artifact, code_objects=code)


def _made_here(artifact: Contents, identity: str, cache: Path | None) -> bool:
    """Whether this machine made the code, and the code says what it touches.

    The cache vouches for code, not for the plan beside it, which is checked against that.
    """
    states = all(one.interface is not None for one in artifact.code_objects[identity])
    return states and made_here(cache, artifact.code_hashes[identity])


def signers(artifact: Contents, identity: str, trust: Trust) -> list[Signature]:
    """The signatures by trusted keys of the program with its code for a target."""
    digest = artifact.code_hashes[identity]
    return [
        signature
        for signature in artifact.signatures
        if trust.key_files and signature.code.get(identity) == digest
        if trust.accepts(signature.key, signature.value, _signed(artifact, signature))
    ]


def is_sound(artifact: Contents, signature: Signature) -> bool:
    """Whether the signature is of this program by the key that it names, trusted or not."""
    return is_signature(signature.key, signature.value, _signed(artifact, signature))


def check_signable(artifact: Contents, trust: Trust, cache: Path | None) -> None:
    """Raises UserError for machine code that nothing vouches for: a signature would bless it."""
    known = admitted(artifact, trust, cache).code_objects
    unknown = [name for name in artifact.code_objects if name not in known]
    if unknown:
        names = ",".join(name.partition(":")[0] for name in unknown)
        raise UserError(
            f"{artifact.name}: nothing vouches for its machine code for {names}: this machine did "
            "not make it, and no trusted key signed it. `mgx finalize FILE --arch "
            f"{','.join(unknown)}` makes it anew; --trust-code signs it as it is"
        )


def sign(artifact: Program, key_file: Path) -> Program:
    """The artifact with a signature of the program and of all its code objects.

    An older signature by the same key is replaced. See `private_key` for errors; who made the code
    is the caller's to check (`check_signable`).
    """
    key = private_key(key_file)
    public = public_bytes(key.public_key()).hex()
    code = artifact.code_hashes
    value = key.sign(statement(artifact.content_hash, code)).hex()
    others = [signature for signature in artifact.signatures if signature.key != public]
    return replace(artifact, signatures=(*others, Signature(public, code, value)))


def unvouched(name: str, identity: str) -> UserError:
    """The error for code that nothing vouches for where no compiler can make it again."""
    return UserError(
        f"{name}: nothing vouches for its machine code for {identity.partition(':')[0]}, and this "
        f"installation has no compiler to make it again; consent to it ({CONSENT}) if you trust "
        "the file, have it signed by a key that MGX_TRUST names (mgx sign), or install mgx-mlir"
    )


# Keys ------------------------------------------------------------------------------------


def new_key(file: Path) -> str:
    """Writes a new private key, for its owner alone, and beside it the public key (.pub.pem).

    Gives the public key in hexadecimal. Raises UsageError where a file is there already.
    """
    _, ed25519, serialization = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    encoding, no_password = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, no_password)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    made: list[Path] = []
    try:
        for path, text, mode in (
            (file, private, 0o600),
            (file.with_suffix(".pub.pem"), key.public_key().public_bytes(encoding, form), 0o644),
        ):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(path)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(text)
    except BaseException as error:
        for one in made:
            one.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise UsageError(f"{path} is there already; a key is never replaced") from None
        raise
    return public_bytes(key.public_key()).hex()


def private_key(file: Path) -> Any:
    """The Ed25519 private key in a PEM file. Raises UsageError where it holds none."""
    _, ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_private_key(_read(file), None)
    except TypeError:
        raise UsageError(f"{file} is encrypted; decrypt it with: openssl pkey -in {file}") from None
    except ValueError as error:
        raise UsageError(f"{file} holds no private key; mgx sign --new-key makes one") from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{file} holds a key of another kind; mgx sign takes Ed25519")
    return key


def public_key(file: Path) -> str:
    """The Ed25519 public key in a PEM file, in hexadecimal. UsageError where it holds none."""
    _, ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_public_key(_read(file))
    except ValueError as error:
        raise UsageError(f"{file} holds no public key in PEM form") from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UsageError(f"{file} holds a key of another kind than Ed25519")
    return public_bytes(key).hex()


def public_bytes(key: Any) -> bytes:
    """The 32 bytes of a public key."""
    found: bytes = key.public_bytes_raw()
    return found


def is_signature(key: str, value: str, message: bytes) -> bool:
    """Whether `value` is the signature of `message` by a public key, both in hexadecimal."""
    exceptions, ed25519, _ = _cryptography()
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(value), message
        )
    except (exceptions.InvalidSignature, ValueError):
        return False
    return True


# The kernel cache ------------------------------------------------------------------------

# The folder of files that are named by the hashes of code that was made here.
MADE = "made"


def note_made(cache: Path, digest: str) -> None:
    """Notes the hash of code that this machine made. Nothing fails where that is impossible."""
    with contextlib.suppress(OSError):
        make_own_folder(cache)
        (cache / MADE).mkdir(mode=0o700, exist_ok=True)
        (cache / MADE / digest).touch(0o600)


def made_here(cache: Path | None, digest: str) -> bool:
    """Whether this machine made the code of a hash, as the kernel cache remembers."""
    if cache is None:
        return False
    check_own_folder(cache)
    try:
        os.utime(cache / MADE / digest)
    except OSError:
        return False
    return True


def make_own_folder(folder: Path) -> None:
    """Makes a folder for this user alone. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def owner_fault(path: Path, status: os.stat_result, owners: Sequence[int]) -> str:
    """The reason not to trust a file or folder: whose it is, or who may write it; '' for none."""
    if status.st_uid not in owners:
        return f"{path} belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {path}"
    return ""


def check_own_folder(folder: Path) -> None:
    """Raises UserError for a folder of code that another user can change. It may be missing."""
    try:
        status = folder.stat()
    except OSError:
        return
    fault = owner_fault(folder, status, (os.geteuid(),))
    if fault:
        raise UserError(
            f"the kernel cache is refused: {fault}, and its entries are code that runs as user "
            f"{os.geteuid()}; name another folder in MGX_CACHE_DIR, or make this one yours alone "
            f"(chown, chmod go-w)"
        )


def _signed(artifact: Contents, signature: Signature) -> bytes:
    return statement(artifact.content_hash, signature.code)


def _is_gpu(name: str) -> bool:
    return name != "cpu" and name in Target.names() and Target.get(name).kind != "cpu"


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:  # which may be a pipe
            text = stream.read(_LARGEST_KEY + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    if len(text) > _LARGEST_KEY:
        raise UsageError(f"{file} is no key: it has more than {_LARGEST_KEY} bytes")
    return text


def _cryptography() -> tuple[Any, Any, Any]:
    """Exceptions, Ed25519 and serialization of the package `cryptography`."""
    try:
        from cryptography import exceptions
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise UserError(
            "signatures need the package cryptography: pip install cryptography"
        ) from error
    return exceptions, ed25519, serialization
