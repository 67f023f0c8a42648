"""The list of phrases to avoid, on texts with and without them."""

import pytest

from tests.language.banned import findings
from tests.language.texts import Text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("docstring", "Whether the disks that are left do not do."),
        ("docstring", "What can be asked of a batch's records, and the doing of it."),
        ("log", "ignored, it is none of the log's file=%s"),
        ("error", "Log levels are not told by the protocol"),
        ("comment", "One that the end of the node interrupted is gone on with"),
        ("test name", "test what is wrong is found"),
    ],
)
def test_phrase_to_avoid_is_found(kind: str, text: str) -> None:
    assert list(findings(Text(kind, "f.py", 1, text)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("docstring", "Return True when too few directories are online."),
        ("log", "resuming interrupted move partition=%s"),
        ("error", "broker loggers are not supported"),
        ("error", "there is no longer a leader; there are no bytes"),
        ("comment", "The node stands by; no more than ten requests wait."),
    ],
)
def test_plain_text_has_no_finding(kind: str, text: str) -> None:
    assert list(findings(Text(kind, "f.py", 1, text))) == []
