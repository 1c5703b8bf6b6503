"""sign: sign an artifact with its code objects, so that machines that trust the key run them.

Code that nothing vouches for is not signed: `mgx finalize` makes it anew, --trust-code signs it.
A key is an Ed25519 one in PEM form, as `openssl genpkey -algorithm ed25519` writes it;
`mgx sign --new-key KEY.pem` makes one. Others trust it by MGX_TRUST=KEY.pub.pem.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mgx_mlir.tools.files import written
from mgx_mlir.tools.options import add_trust_option, settings_of

# The default is the artifact itself.
IN_PLACE = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("artifact", type=Path, nargs="?", metavar="X.mgx")
    add("--key", type=Path, metavar="KEY.pem", help="the private key")
    add("-o", "--output", type=written, metavar="FILE", help="default: the artifact itself")
    add("--new-key", type=written, metavar="KEY.pem", help="make a key, and KEY.pub.pem beside it")
    add_trust_option(parser)


def run(options: argparse.Namespace) -> int:
    import mgx_mlir
    from mgx_mlir import trust
    from mgx_mlir.errors import UsageError
    from mgx_mlir.tools.console import note
    from mgx_mlir.tools.files import expect_artifact

    if options.new_key is not None:
        if options.artifact is not None or options.key is not None:
            raise UsageError("--new-key makes a key and signs nothing; sign with --key")
        key = trust.new_key(options.new_key)
        note(f"{options.new_key}: the private key of {key}; keep it secret")
        note(f"{options.new_key.with_suffix('.pub.pem')}: the public key, for MGX_TRUST")
        return 0
    if options.artifact is None or options.key is None:
        raise UsageError("name an artifact and a key: mgx sign X.mgx --key KEY.pem")
    expect_artifact(options.artifact, options.verb)
    output = options.output or options.artifact
    artifact = mgx_mlir.load(options.artifact)
    settings = settings_of(options)
    trust.check_signable(artifact, trust.Trust.of(settings), settings.cache_dir)
    artifact = trust.sign(artifact, options.key)
    artifact.save(output)
    covered = ", ".join(name.partition(":")[0] for name in artifact.code_objects)
    note(f"{output}: signed by {artifact.signatures[-1].key}, the program and its code for "
          f"{covered or 'no target'}")  # fmt: skip
    return 0
