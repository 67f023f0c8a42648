"""Credentials that passed a costly check, remembered for a while under a keyed hash."""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Final

import trio

_REMEMBERED_MAX: Final = 1024


class RememberedCredentials:
    """Users with their passwords; the oldest is forgotten when there are too many."""

    def __init__(self, lifetime_s: float) -> None:
        self._lifetime_s = lifetime_s
        self._key = secrets.token_bytes(32)
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def has(self, user: str, password: str) -> bool:
        """True when the credentials passed within the lifetime."""
        return self._until.get(self._digest(user, password), 0.0) > trio.current_time()

    def add(self, user: str, password: str) -> None:
        """Remember credentials that passed."""
        digest = self._digest(user, password)
        self._until[digest] = trio.current_time() + self._lifetime_s
        self._until.move_to_end(digest)
        while len(self._until) > _REMEMBERED_MAX:
            self._until.popitem(last=False)

    def _digest(self, user: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{user}\0{password}".encode(), hashlib.sha256)
