"""A server of prepared answers over HTTP, for tests of those who send requests."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

Answer = tuple[int, dict[str, str], bytes]
Sent = tuple[str, str, dict[str, str], bytes]


class Answers(BaseHTTPRequestHandler):
    """Answers paths, and notes what it was sent."""

    seen: ClassVar[list[Sent]]
    answers: ClassVar[dict[str, Answer]]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append((self.command, self.path, sent, body))
        status, headers, answer = self.answers[self.path]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(answer))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815
    do_PUT = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def serving(
    answers: dict[str, Answer], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[Sent]]]:
    """Serve answers within the block; its value is the address, and what was sent."""
    seen: list[Sent] = []
    handler = type("Handler", (Answers,), {"answers": answers, "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
