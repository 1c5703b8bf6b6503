"""Tries every model that was made to harm, or those whose names hold a word.

    python -m test.fuzz.hostile [WORD ...]

Prints each finding; the exit code says whether there is one.
"""

from __future__ import annotations

import argparse
import sys
import time

from test.fuzz.hostile.attempt import Attempts
from test.fuzz.hostile.rows import rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what each gave")
    options = parser.parse_args()
    chosen = [r for r in rows() if not options.words or any(w in r.name for w in options.words)]
    found = 0
    with Attempts() as attempts:
        for row in chosen:
            started = time.monotonic()
            result = attempts.of(row)
            if result.finding:
                found += 1
                print(f"{row.name}: {result.finding}", flush=True)
            if options.verbose:
                seconds = time.monotonic() - started
                print(
                    f"{row.name} ({seconds:.1f} s)\n    " + "\n    ".join(result.said), flush=True
                )
    print(f"{len(chosen)} models, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
