"""A node for the command line's tests, and a way to run commands in this process."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from barnabas.cli.main import run


class Outcome(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON document that it printed."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines that it printed."""
        return self.out.splitlines()


Barnabas = Callable[..., Outcome]


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """Our own node, or the server that BARNABAS_TEST_BOOTSTRAP names (Apache Kafka, say)."""
    other = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if other:
        yield other
        return
    from barnabas.testing import Node
    from barnabas.testing.free_ports import free_ports

    (port,) = free_ports(1)
    config = {"group.initial.rebalance.delay.ms": "0", "barnabas.metrics.port": str(port)}
    with Node(config=config) as node:
        yield node.bootstrap


@pytest.fixture
def barnabas(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Barnabas:
    """Run a command against the node: barnabas("topic", "list", stdin=b"")."""
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", bootstrap)

    def command(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfdbinary.readouterr()
        code = run(list(arguments))
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode(), err.decode())

    return command


@pytest.fixture
def topic(request: pytest.FixtureRequest, barnabas: Barnabas) -> str:
    """A new topic of the test's own, with three partitions."""
    name = f"t{abs(hash(request.node.nodeid)):x}-{os.getpid()}"
    assert barnabas("topic", "create", name, "--partitions", "3").code == 0
    return name
