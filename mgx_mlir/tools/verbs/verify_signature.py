"""verify-signature: say who signed an artifact, and whether these keys are trusted.

Nothing of the artifact runs. Keys are those of MGX_TRUST, or of --key.

exit code: 0: a trusted key signed the program and all of its code; 1: none did; 2: wrong usage
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("artifact", type=Path, metavar="X.mgx")
    add(
        "--key",
        type=Path,
        action="append",
        default=[],
        metavar="KEY.pub.pem",
        help="a public key to trust, or a folder of them (default: those of MGX_TRUST)",
    )


def run(options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir.settings import Settings
    from mgx_mlir.tools.files import expect_artifact
    from mgx_mlir.trust import Trust, is_sound

    expect_artifact(options.artifact, options.verb)
    artifact = mgx_mlir.load(options.artifact)
    artifact.weight_arrays()  # a signature is of their hashes
    trust = Trust(key_files=tuple(options.key) or Settings.from_environment().trusted_keys)
    trusted = False
    for signature in artifact.signatures:
        hashes = artifact.code_hashes.items()
        missing = [name for name, digest in hashes if signature.code.get(name) != digest]
        known = signature.key in trust.keys
        if not is_sound(artifact, signature):
            print(f"{signature.key}: not its signature of this program")
            continue
        where = f"trusted ({trust.keys[signature.key]})" if known else "not a trusted key"
        names = ", ".join(name.partition(":")[0] for name in missing)
        print(f"{signature.key}: {where}" + (f"; not of the code for {names}" if missing else ""))
        trusted |= known and not missing
    print("a trusted key signed it" if trusted else "no trusted key signed all of it")
    return int(not trusted)
