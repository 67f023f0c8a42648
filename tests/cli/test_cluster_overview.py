"""`barnabas cluster`: brokers that refuse one node only."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.cluster_command import _show
from barnabas.cli.cluster_overview import disputed_brokers
from tests.cli.pages_server import serving, set_metrics

CLIENT: Any = SimpleNamespace()
NODE = SimpleNamespace(id=3, host="127.0.0.1")


class Pages(BaseHTTPRequestHandler):
    """Has the metrics of a node which one broker refuses."""

    def do_GET(self) -> None:
        assert self.path == "/metrics"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"barnabas_disputed_brokers 1.0\nbarnabas_x 2.0\n")


@pytest.fixture
def port() -> Iterator[int]:
    with serving(Pages) as port:
        yield port


def test_disputed_brokers_are_in_the_metrics_of_the_node(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    set_metrics(monkeypatch, host="127.0.0.1", port=port)
    assert disputed_brokers(CLIENT, NODE) == 1


@pytest.mark.parametrize("unused", [-1, 1])
def test_disputed_brokers_of_a_node_without_pages_are_unknown(
    monkeypatch: pytest.MonkeyPatch, unused: int
) -> None:
    set_metrics(monkeypatch, host="127.0.0.1", port=unused)
    assert disputed_brokers(CLIENT, NODE) is None


def test_cluster_shows_a_broker_that_refuses_one_node(capsys: pytest.CaptureFixture[str]) -> None:
    node = {"host": "h", "port": 1, "rack": None, "fenced": False, "leads": 0, "replicas": 0}
    found: dict[str, Any] = {
        "cluster_id": "c",
        "topics": 0,
        "partitions": 0,
        "partitions_without_leader": 0,
        "partitions_not_in_sync": [],
        "quorum": None,
        "nodes": [
            {**node, "id": 1, "disputed_brokers": None},
            {**node, "id": 3, "disputed_brokers": 1},
        ],
    }
    _show(found)
    assert "node 3 cannot connect to 1 broker" in capsys.readouterr().out
