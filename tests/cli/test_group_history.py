"""The history of a group's rebalances, from servers that serve it and from others."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.group_history import NoHistoryError, rebalances
from tests.cli.pages_server import serving, set_metrics

COORDINATOR = SimpleNamespace(id=1, host="127.0.0.1")
CLIENT: Any = SimpleNamespace()


class Answers(BaseHTTPRequestHandler):
    """Answers each group by its name."""

    bodies = {
        "/groups/g/rebalances": (
            200,
            b'{"rebalances": [{"time_ms": 1, "epoch": 2, "reason": "r"}]}',
        ),
        "/groups/a%2Fb/rebalances": (200, b'{"rebalances": []}'),
        "/groups/junk/rebalances": (200, b"[]"),
        "/groups/gone/rebalances": (404, b"NOT_COORDINATOR"),
    }

    def do_GET(self) -> None:
        status, body = self.bodies[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def port() -> Iterator[int]:
    with serving(Answers) as port:
        yield port


def ask(monkeypatch: pytest.MonkeyPatch, group_id: str, **configs: object) -> list[dict[str, Any]]:
    set_metrics(monkeypatch, **configs)
    return rebalances(CLIENT, group_id, COORDINATOR)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_group_history_served_is_returned(
    monkeypatch: pytest.MonkeyPatch, port: int, host: str
) -> None:
    (cause,) = ask(monkeypatch, "g", host=host, port=port)
    assert cause == {"time_ms": 1, "epoch": 2, "reason": "r"}
    assert ask(monkeypatch, "a/b", host=host, port=port) == []


@pytest.mark.parametrize(
    ("configs", "reason"),
    [
        ({}, "broker 1 is not a barnabas server"),
        ({"port": -1}, "the HTTP endpoint of broker 1 is off; set barnabas.metrics.port"),
        ({"port": 0}, "set a fixed one"),
        ({"host": "127.0.0.1", "port": 1}, "127.0.0.1:1 cannot be reached"),
    ],
)
def test_group_history_unavailable_says_why(
    monkeypatch: pytest.MonkeyPatch, configs: dict[str, object], reason: str
) -> None:
    with pytest.raises(NoHistoryError, match=reason):
        ask(monkeypatch, "g", **configs)


def test_group_history_bad_answer_says_why(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    with pytest.raises(NoHistoryError, match="sent no history"):
        ask(monkeypatch, "junk", host="127.0.0.1", port=port)
    with pytest.raises(NoHistoryError, match="answers 404: NOT_COORDINATOR"):
        ask(monkeypatch, "gone", host="127.0.0.1", port=port)
