"""A thread with the clients of both clusters, for the threads of the driver that are not trio's."""

import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from barnabas.client import ClientError, KafkaClient, open_client
from barnabas.client.client_config import ClientConfig

T = TypeVar("T")


class ClientThread:
    """Runs calls with clients of the source and the target, until it is closed."""

    def __init__(self, source: ClientConfig, target: ClientConfig) -> None:
        self._configs = source, target
        self._started = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._closing = trio.Event()
        self._clients: tuple[KafkaClient, KafkaClient] | None = None
        self._thread = threading.Thread(target=self._run, name="mirror clients", daemon=True)
        self._failure: BaseException | None = None
        self._scope: trio.CancelScope | None = None

    def start(self) -> None:
        """Start the thread; no connection is opened yet. Raises ConfigError for bad TLS files."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def clients(self) -> tuple[KafkaClient, KafkaClient]:
        """Return the clients of source and target, to use in calls only."""
        if self._clients is None:
            raise RuntimeError("the thread is not running")
        return self._clients

    def call(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Run a call in the thread and return its result.

        Raises what it raises, and ClientError when it is cancelled.
        """
        if self._token is None:
            raise RuntimeError("the thread is not running")
        return trio.from_thread.run(self._call, function, *args, trio_token=self._token)

    async def _call(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        with trio.CancelScope() as scope:
            self._scope = scope
            return await function(*args)
        raise ClientError("the call was cancelled, because the flow is stopped")

    def cancel_call(self) -> None:
        """Cancel the call that runs now, if one does."""

        def cancel() -> None:
            if self._scope is not None:
                self._scope.cancel()

        if self._token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(cancel)

    def close(self) -> None:
        """Close the connections and end the thread; a call that runs is cancelled."""
        token = self._token
        if token is not None and self._thread.is_alive():
            try:
                token.run_sync_soon(self._closing.set)
            except trio.RunFinishedError:
                return
            self._thread.join()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # handed to `start`
            self._failure = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with open_client(self._configs[0]) as source, open_client(self._configs[1]) as target:
            self._clients = source, target
            self._started.set()
            await self._closing.wait()
