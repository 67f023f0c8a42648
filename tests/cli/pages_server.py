"""A server of a node's HTTP pages, for tests of the commands that read them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from barnabas.cli import node_pages


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve pages within the block, without log lines; its value is the port."""
    quiet = type(handler.__name__, (handler,), {"log_message": lambda *_: None})
    server = HTTPServer(("127.0.0.1", 0), quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def set_metrics(monkeypatch: pytest.MonkeyPatch, **values: object) -> None:
    """Have each broker state these properties `barnabas.metrics.NAME`."""
    configs = {
        f"barnabas.metrics.{name}": SimpleNamespace(value=str(value))
        for name, value in values.items()
    }
    monkeypatch.setattr(node_pages, "broker_configs", lambda *_: configs)
