"""An issuer of OAuth tokens on this machine: client credentials go in, signed tokens come out."""

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

ISSUER: Final = "https://issuer"
AUDIENCE: Final = "kafka"
_KEY_ID: Final = "one"
_LIFETIME_S: Final = 600


class TokenIssuer:
    """The endpoint at `url`; `clients` are the ids that get tokens, with their secrets.

    A token's subject is the id of its client. `issued` counts tokens by client.
    """

    def __init__(self, clients: dict[str, str], lifetime_s: float = _LIFETIME_S) -> None:
        self.clients = clients
        self.issued: dict[str, int] = dict.fromkeys(clients, 0)
        self._lifetime_s = lifetime_s
        self._key = RSAKey.generate_key(2048, {"kid": _KEY_ID})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def write_keys(self, file: Path) -> Path:
        """Write the public keys (JWKS) to a file."""
        file.write_text(json.dumps(KeySet([self._key]).as_dict(private=False)))
        return file

    def token(self, subject: str) -> str:
        """Return a new token."""
        now_s = int(time.time())
        claims = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s}
        claims["exp"] = now_s + int(self._lifetime_s)
        return jwt.encode({"alg": "RS256", "kid": _KEY_ID}, claims, self._key)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                scheme, _, credentials = self.headers.get("Authorization", "").partition(" ")
                client, _, secret = base64.b64decode(credentials).decode().partition(":")
                is_known = scheme == "Basic" and issuer.clients.get(client) == secret
                if not is_known or form.get("grant_type") != ["client_credentials"]:
                    self._answer(401, {"error": "invalid_client"})
                    return
                issuer.issued[client] += 1
                token = issuer.token(client)
                answer = {"access_token": token, "token_type": "Bearer", "expires_in": 600}
                self._answer(200, answer)

            def _answer(self, status: int, document: dict[str, object]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
