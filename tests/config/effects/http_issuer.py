"""A server of JSON documents on this machine, for issuers of tokens and of keys."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TypeVar

S = TypeVar("S", bound="IssuerServer")


class IssuerServer(ThreadingHTTPServer):
    """A server whose handler answers at one path."""

    daemon_threads = True

    def __init__(self, handler: type["DocumentHandler"], path: str) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}{path}"


class DocumentHandler(BaseHTTPRequestHandler):
    """Answers with documents."""

    def answer(self, status: int, content: object) -> None:
        document = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(document)))
        self.end_headers()
        self.wfile.write(document)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


@contextmanager
def serving(server: S) -> Iterator[S]:
    """Run a server within the block."""
    with server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
