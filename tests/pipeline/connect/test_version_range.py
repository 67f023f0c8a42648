"""Ranges of versions."""

import pytest

from barnabas.pipeline.connect.version_range import includes


@pytest.mark.parametrize(
    ("wanted", "version", "expected"),
    [
        ("4.3.0", "4.3.0", True),
        ("4.3", "4.3.0", True),
        ("1", "4.3.0", False),
        ("latest", "4.3.0", True),
        ("", "4.3.0", False),
        ("abc", "4.3.0", False),
        ("[1,2)", "1.9", True),
        ("[1,2)", "2.0", False),
        ("(1,2]", "1", False),
        ("(1,2]", "2", True),
        ("[4.3,)", "4.10", True),
        ("(,4.3)", "4.2.9", True),
        ("(,1],[4,5)", "4.3.0", True),
        ("[4.3.0]", "4.3.0", True),
        ("[4.3.0]", "4.3.1", False),
        ("[4,5", "4.3.0", False),
        ("[0.1.0,0.2)", "0.1.0.dev3", True),
    ],
)
def test_version_is_in_the_range_that_maven_means(
    wanted: str, version: str, expected: bool
) -> None:
    assert includes(wanted, version) is expected
