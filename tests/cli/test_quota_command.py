"""`barnabas quota` on a node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import Node
from tests.cli.conftest import Barnabas


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Node() as node:
        yield node.bootstrap


def test_quotas_are_set_listed_described_and_removed(barnabas: Barnabas) -> None:
    ann = ("--user", "ann")
    dry = barnabas("quota", "set", *ann, "--producer-byte-rate", "1000", "--dry-run")
    assert dry.lines == ["user ann: could be set (producer_byte_rate)"]
    assert barnabas("quota", "list", "--json").data == []
    done = barnabas("quota", "set", *ann, "--producer-byte-rate", "1000")
    assert done.lines == ["user ann: set (producer_byte_rate)"]
    both = ("--user-default", "--client-id", "app")
    assert barnabas("quota", "set", *both, "--consumer-byte-rate", "2000").code == 0
    assert barnabas("quota", "list").lines == [
        "USER       CLIENT ID  IP  QUOTA               VALUE",
        "(default)  app        -   consumer_byte_rate  2000",
        "ann        -          -   producer_byte_rate  1000",
    ]
    found = {"entity": [{"type": "user", "name": "ann"}], "quotas": {"producer_byte_rate": 1000.0}}
    assert barnabas("quota", "describe", *ann, "--json").data == [found]
    assert barnabas("quota", "remove", *ann, "--dry-run").lines == [
        "user ann: could be removed (producer_byte_rate)"
    ]
    assert barnabas("quota", "remove", *ann, "--yes").lines == [
        "user ann: removed (producer_byte_rate)"
    ]
    assert barnabas("quota", "describe", *ann).code == 1


@pytest.mark.parametrize(
    ("entity", "option", "value", "shown"),
    [
        ("--user=bob", "--request-percentage", "12.5", "bob - -"),
        ("--user=bob", "--controller-mutation-rate", "0.5", "bob - -"),
        ("--ip=10.0.0.1", "--connection-creation-rate", "7", "- - 10.0.0.1"),
    ],
)
def test_quotas_of_each_kind_can_be_set(
    barnabas: Barnabas, entity: str, option: str, value: str, shown: str
) -> None:
    key = option.removeprefix("--").replace("-", "_")
    assert barnabas("quota", "set", entity, option, value).code == 0
    lines = [" ".join(line.split()) for line in barnabas("quota", "list").lines]
    assert f"{shown} {key} {value}" in lines
    assert barnabas("quota", "remove", entity, "--yes").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "--producer-byte-rate", "1"),
        ("set", "--user", "ann"),
        ("set", "--user", "ann", "--user-default", "--producer-byte-rate", "1"),
        ("set", "--user", "ann", "--producer-byte-rate", "0"),
        ("set", "--user", "ann", "--request-percentage", "0"),
        ("describe", "--ip", "10.0.0.1", "--ip-default"),
    ],
)
def test_wrong_use_of_quota_is_refused(barnabas: Barnabas, arguments: tuple[str, ...]) -> None:
    assert barnabas("quota", *arguments).code == 2
