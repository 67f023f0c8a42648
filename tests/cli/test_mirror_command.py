"""`barnabas mirror` without Spark: the plan of a flow, its refusals, and promotion."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.cli.conftest import Barnabas

RUNNER = ("--runner", "http://127.0.0.1:9")
"""No command of these tests gets as far as a request to the runner."""


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with Node() as node:
        yield node.bootstrap


def test_the_plan_of_a_flow_is_shown_and_nothing_is_started(
    barnabas: Barnabas, bootstrap: str, topic: str, target: str
) -> None:
    create = ("mirror", "create", "plan", "--from", bootstrap, "--to", target, "--topics", topic)
    found = barnabas(*create, *RUNNER)
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "OFFSETS", "BYTES", "AT", "THE", "TARGET"]
    assert lines[1].startswith(topic)
    assert lines[1].endswith("created by the flow")
    assert "not copied: users and their credentials, which no client can read" in lines
    assert "not copied: ACLs, because the source has no authorizer" in lines
    assert "translated: offsets of groups" not in found.out
    assert lines[-1] == "nothing was started: repeat the command with --yes to start flow plan"
    assert "translated: offsets of groups" in barnabas(*create, *RUNNER, "--offsets=assigned").out


def test_a_flow_within_one_cluster_is_refused(
    barnabas: Barnabas, bootstrap: str, topic: str
) -> None:
    addresses = ("--from", bootstrap, "--to", bootstrap)
    found = barnabas("mirror", "create", "itself", *addresses, "--topics", topic, *RUNNER)
    assert found.code == 1
    assert "source and target are one cluster" in found.err


def test_a_flow_with_a_name_that_no_topic_can_carry_is_refused(
    barnabas: Barnabas, bootstrap: str, target: str
) -> None:
    addresses = ("--from", bootstrap, "--to", target)
    found = barnabas("mirror", "create", "a flow", *addresses, "--topics", "x", *RUNNER)
    assert found.code == 2
    assert "A flow's name has 1 to 249 letters" in found.err


def test_the_mirrors_of_a_flow_are_promoted(barnabas: Barnabas, target: str) -> None:
    for name in ("left", "right"):
        config = "barnabas.mirror.source=eu-to-us"
        created = barnabas("topic", "create", name, "--bootstrap", target, "--set", config)
        assert created.code == 0, created.err
    promote = ("mirror", "promote", "eu-to-us", "--to", target, "--yes")
    assert barnabas(*promote, "--topic", "left").out == "promoted topic left\n"
    found = barnabas(*promote, "--topic", "left")
    assert found.code == 1
    assert f"topic left is not a mirror of flow eu-to-us at {target}" in found.err
    assert barnabas(*promote).out == "promoted topic right\n"
    assert "no topic is a mirror of flow eu-to-us" in barnabas(*promote).err


def test_the_reverse_of_a_promoted_flow_is_shown_and_nothing_is_started(
    barnabas: Barnabas, bootstrap: str, topic: str, target: str
) -> None:
    config = "barnabas.mirror.source=there"
    create = ("topic", "create", topic, "--partitions", "3", "--bootstrap", target)
    created = barnabas(*create, "--set", config)
    assert created.code == 0, created.err
    reverse = ("mirror", "reverse", "there", "--from", bootstrap, "--to", target, *RUNNER)
    assert "run barnabas mirror promote there first" in barnabas(*reverse).err
    assert barnabas("mirror", "promote", "there", "--to", target, "--yes").code == 0
    found = barnabas(*reverse)
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITION", "CONTINUES", "AT"]
    assert lines[1].split() == [topic, "0", "0"]
    assert lines[-2] == f"flow there-reverse copies from {target} to {bootstrap}"
    assert lines[-1] == (
        "nothing was started: repeat the command with --yes to start flow there-reverse"
    )


def test_a_single_topic_of_a_runners_flow_is_not_promoted(barnabas: Barnabas) -> None:
    promote = ("mirror", "promote", "there", "--to", "127.0.0.1:9", "--topic", "t", *RUNNER)
    found = barnabas(*promote)
    assert found.code == 2
    assert "--topic and --runner exclude each other" in found.err


@pytest.mark.parametrize("line", ["security.protocol=SECURE", "ssl.truststore.type=NONE", ""])
def test_commands_refuse_a_file_of_properties_with_one_exit_code(
    barnabas: Barnabas, tmp_path: Path, line: str
) -> None:
    """An empty line stands for a file that does not exist."""
    file = tmp_path / "client.properties"
    if line:
        file.write_text(line + "\n")
    sides = ("--from", "127.0.0.1:9", "--to", "127.0.0.1:9", "--source-config", str(file))
    target = ("--to", "127.0.0.1:9", "--target-config", str(file))
    for command in (
        ("create", "bad", *sides, "--topics", "x", *RUNNER),
        ("promote", "bad", *target, "--yes"),
        ("reverse", "bad", *sides, *RUNNER),
        ("verify", *sides, "--topics", "x"),
    ):
        found = barnabas("mirror", *command)
        assert (found.code, found.out) == (2, ""), command
