"""Open connections by address and lane, with backoff between attempts.

A lane keeps requests that wait long (a fetch, a join) out of the way of others: a broker works on
one request of a connection at a time.
"""

from random import Random
from typing import NamedTuple

from barnabas import tasks
from barnabas.client.broker_connection import BrokerConnection, open_connection
from barnabas.client.client_config import ClientConfig
from barnabas.client.core.retry_backoff import Backoff
from barnabas.client.failures import Address, AuthenticationError, ConnectionFailureError


class _Key(NamedTuple):
    address: Address
    lane: str


class _Slot:
    """The connection of one key, and the lock under which it is opened."""

    def __init__(self) -> None:
        self.opening = tasks.lock()
        self.connection: BrokerConnection | None = None


class _Attempts:
    """Failed attempts to reach one address since the last success."""

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at = 0.0


class ConnectionPool:
    """Connections that stay open until they fail; their reader tasks run in `nursery`."""

    def __init__(self, config: ClientConfig, nursery: tasks.Nursery) -> None:
        self._config = config
        self._nursery = nursery
        self._slots: dict[_Key, _Slot] = {}
        self._attempts: dict[Address, _Attempts] = {}
        self._backoff = Backoff(config.reconnect_backoff_s, config.reconnect_backoff_max_s)

    def failures(self, address: Address) -> int:
        """Return how many attempts to reach an address failed since the last success."""
        attempts = self._attempts.get(address)
        return attempts.failures if attempts is not None else 0

    async def connection(self, address: Address, lane: str = "") -> BrokerConnection:
        """Return an open connection, after the backoff where the last attempts failed.

        Raises ConnectionFailureError or AuthenticationError when it cannot be opened.
        """
        slot = self._slots.setdefault(_Key(address, lane), _Slot())
        async with slot.opening:
            current = slot.connection
            if current is not None and current.is_usable:
                return current
            slot.connection = None
            slot.connection = await self._open(address)
            if current is not None and current.is_idle:
                current.close()
            return slot.connection

    async def _open(self, address: Address) -> BrokerConnection:
        attempts = self._attempts.setdefault(address, _Attempts())
        await tasks.sleep_until(attempts.retry_at)
        try:
            connection = await open_connection(address, self._config, self._nursery)
        except (ConnectionFailureError, AuthenticationError):
            attempts.failures += 1
            delay_s = self._backoff.delay_s(attempts.failures, tasks.local(Random).random())
            attempts.retry_at = tasks.current_time() + delay_s
            raise
        self._attempts.pop(address, None)
        return connection

    def close_lane(self, lane: str) -> None:
        """Close and forget the connections of a lane."""
        for key in [key for key in self._slots if key.lane == lane]:
            self._close(self._slots.pop(key))

    def retire_lane(self, lane: str) -> None:
        """Open new connections for further requests of a lane; those that wait keep the old one."""
        for key, slot in self._slots.items():
            if key.lane == lane and slot.connection is not None:
                if slot.connection.is_idle:
                    self._close(slot)
                slot.connection = None

    def close_except(self, addresses: set[Address]) -> None:
        """Close idle connections to brokers that have left or moved."""
        for key, slot in list(self._slots.items()):
            connection = slot.connection
            if key.address not in addresses and connection is not None and connection.is_idle:
                self._close(slot)
                del self._slots[key]

    def close(self) -> None:
        """Close every connection."""
        for slot in self._slots.values():
            self._close(slot)
        self._slots.clear()

    def _close(self, slot: _Slot) -> None:
        if slot.connection is not None:
            slot.connection.close()
