"""`barnabas token` on a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Node, Security
from tests.cli.conftest import Barnabas


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    config = {"delegation.token.secret.key": "secret"}
    with Node(config=config, security=Security(users=["ann"])) as found:
        yield found


@pytest.fixture(scope="module")
def bootstrap(node: Node) -> str:
    return node.bootstrap


@pytest.fixture
def files(node: Node, tmp_path: Path) -> dict[str, str]:
    """The files with the settings of each user's client."""
    found: dict[str, str] = {}
    for user in ("admin", "ann"):
        settings = node.client_config(user)
        lines = [f"{name}={value}" for name, value in settings.items() if "bootstrap" not in name]
        file = tmp_path / f"{user}.properties"
        file.write_text("\n".join(lines))
        found[user] = str(file)
    return found


def test_tokens_are_created_described_renewed_and_removed(
    barnabas: Barnabas, files: dict[str, str]
) -> None:
    admin, ann = ("--client-config", files["admin"]), ("--client-config", files["ann"])
    made = barnabas("token", "create", "--owner", "ann", "--renewer", "User:bob", *admin, "--json")
    assert made.code == 0, made.err
    token_id = made.data["token_id"]
    assert (made.data["owner"], made.data["renewers"]) == ("User:ann", ["User:bob"])
    assert len(made.data["hmac"]) == 88
    (shown,) = barnabas("token", "describe", token_id, *ann, "--json").data
    assert "hmac" not in shown
    assert (shown["requester"], shown["expires"]) == ("User:admin", made.data["expires"])
    (shown,) = barnabas("token", "describe", *ann, "--show-hmac", "--json").data
    assert shown["hmac"] == made.data["hmac"]
    table = barnabas("token", "describe", "--owner", "ann", *admin).lines
    assert table[0].split("  ")[0] == "TOKEN"
    assert table[1].startswith(token_id)
    assert made.data["hmac"] not in table[1]
    renewed = barnabas("token", "renew", token_id, "--period-ms", "60000", *ann)
    assert renewed.out.startswith(f"{token_id} expires 20")
    assert barnabas("token", "renew", token_id, *admin).code == 1  # neither owner nor renewer
    ended = barnabas("token", "expire", token_id, "--period-ms", "0", *ann, "--json")
    assert ended.data["token_id"] == token_id
    assert "has expired" in barnabas("token", "renew", token_id, *ann).err
    assert barnabas("token", "expire", token_id, "--yes", *ann).lines == [f"{token_id} removed"]
    assert barnabas("token", "describe", *admin, "--json").data == []
    assert "does not exist" in barnabas("token", "describe", token_id, *admin).err


def test_created_token_is_printed_with_its_password_and_times(
    barnabas: Barnabas, files: dict[str, str]
) -> None:
    made = barnabas(
        "token", "create", "--max-lifetime-ms", "60000", "--client-config", files["ann"]
    )
    names = [line.partition(":")[0] for line in made.lines]
    assert names == ["token id", "hmac", "owner", "issued", "expires", "renewable until"]
    assert made.lines[4].split()[-1] == made.lines[5].split()[-1]


def test_refusals_say_why(barnabas: Barnabas, files: dict[str, str]) -> None:
    ann = ("--client-config", files["ann"])
    assert "CREATE_TOKENS" in barnabas("token", "create", "--owner", "bob", *ann).err
    assert "must be users" in barnabas("token", "create", "--renewer", "Group:x", *ann).err
    assert barnabas("token", "create", "--max-lifetime-ms", "0", *ann).code == 2
