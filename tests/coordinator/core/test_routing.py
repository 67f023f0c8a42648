import pytest

from barnabas.coordinator.core.routing import partition_for
from barnabas.protocol.java_hash import java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_java_hash_equals_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_partition_for_lowest_hash_is_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("console-consumer-12345", 50) == 6
