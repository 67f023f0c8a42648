"""The address of the first caller of a request that one instance passes on to another.

ACLs may name the address of a client. The instance that gets a request first adds a header with
that address, and proves it with a key that only instances have: it is made of the password of their
Kafka user, or of `barnabas.http.peer.secret`. The statement is of one user, method and path, and is
valid for a few minutes. The user's credentials are sent beside it, and are checked as any others.
"""

import base64
import hashlib
import hmac
import logging
import time
from typing import Final

import trio

from barnabas.client import ClientConfig
from barnabas.http.asgi import Scope, header
from barnabas.http.authentication import principal_of

logger = logging.getLogger(__name__)

PEER_SECRET_PROPERTY: Final = "barnabas.http.peer.secret"
_HEADER: Final = "x-barnabas-first-caller"
_PEERS: Final = "barnabas.peers"
_VALID_S: Final = 300
"""The largest difference of the clocks of two instances."""
_ITERATIONS: Final = 100_000
"""Hashes for each password that an eavesdropper guesses."""


class PeerKey:
    """The key that the instances of one service share."""

    def __init__(self, secret: str, salt: str) -> None:
        """Takes tens of milliseconds, on purpose."""
        self._key = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt.encode(), _ITERATIONS)

    def statement(self, address: str, user: str, method: str, path: str) -> str:
        """Return the header's value: a time in seconds, the address, and the proof of both."""
        now = str(int(time.time()))
        return f"{now} {address} {self._proof(now, address, user, method, path)}"

    def address(self, statement: str, user: str, method: str, path: str) -> str | None:
        """Return the address that a peer states; None when no peer, or another request, does."""
        parts = statement.split(" ")
        if len(parts) != 3 or not (parts[0].isascii() and parts[0].isdecimal()):
            return None
        stated_s, address, proof = parts
        expected = self._proof(stated_s, address, user, method, path)
        if not hmac.compare_digest(expected.encode(), proof.encode()):
            return None
        return address if abs(time.time() - int(stated_s)) <= _VALID_S else None

    def _proof(self, *stated: str) -> str:
        digest = hmac.digest(self._key, "\0".join(stated).encode(), hashlib.sha256)
        return base64.b64encode(digest).decode()


async def peer_key(brokers: ClientConfig | None, secret: str) -> PeerKey | None:
    """Return the key of a service whose instances are the same user of the brokers.

    `secret` replaces the password. Without both, None: no address of a first caller is believed.
    """
    if secret:
        return await trio.to_thread.run_sync(PeerKey, secret, PEER_SECRET_PROPERTY)
    sasl = None if brokers is None else brokers.sasl
    if sasl is None or not sasl.password:
        return None
    return await trio.to_thread.run_sync(PeerKey, sasl.password, f"barnabas peer {sasl.username}")


def adopt_first_caller(scope: Scope, peers: PeerKey | None) -> None:
    """Make the address of the first caller that of the request, when a peer states it.

    The request's user must be known. Requests to other instances use the same key.
    """
    scope[_PEERS] = peers
    statement = header(scope, _HEADER.encode())
    if peers is None or statement is None:
        return
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    address = peers.address(
        statement.decode("latin-1"), principal_of(scope), scope["method"], path.decode("latin-1")
    )
    if address is None:
        logger.warning(
            "ignoring the first caller of a request: not stated by an instance with the key of "
            "this one client=%s",
            (scope.get("client") or ("-", 0))[0],
        )
    else:
        scope["client"] = (address, 0)


def first_caller_headers(scope: Scope, method: str, path: str) -> dict[str, str]:
    """Return the headers that pass the address of a request's caller on to another instance."""
    peers: PeerKey | None = scope.get(_PEERS)
    client = scope.get("client")
    if peers is None or not client:
        return {}
    return {_HEADER: peers.statement(client[0], principal_of(scope), method, path)}
