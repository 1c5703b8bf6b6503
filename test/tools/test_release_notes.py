"""The change log by versions, and the notes of a release."""

from __future__ import annotations

import re

import pytest

from mgx_mlir.version import __version__
from scripts import release_notes

TEXT = release_notes.CHANGELOG.read_text()


def test_every_version_says_what_users_must_do() -> None:
    headings = re.findall(r"^## (.+)$", TEXT, re.M)
    assert headings[0].startswith(__version__)
    for heading in headings:
        version = heading.partition(",")[0]
        assert re.fullmatch(rf"{version}, (not released|\d{{4}}-\d\d-\d\d)", heading)
        _, body = release_notes.notes(TEXT, version)
        assert body.count(release_notes.MUST) == 1, version


def test_notes_are_those_of_one_version(capsys: pytest.CaptureFixture[str]) -> None:
    text = "# Changes\n\n## 0.2.0, 2027-01-01\n\n- b\n\n## 0.1.0, not released\n\n- a\n"
    assert release_notes.notes(text, "0.2.0") == ("0.2.0, 2027-01-01", "- b")
    assert release_notes.notes(text, "0.1.0") == ("0.1.0, not released", "- a")
    parts = "- a\n\n### In short\n\nb\n\n### Steps for users\n\n- c"
    assert release_notes.ordered(parts) == (
        "### In short\n\nb\n\n### Steps for users\n\n- c\n\n### Changes\n\n- a"
    )
    assert release_notes.main([]) == 0
    assert capsys.readouterr().out.startswith(f"# mgx-mlir {__version__}\n")
    assert release_notes.main(["9.9.9"]) == 1
    assert "no version 9.9.9" in capsys.readouterr().err
