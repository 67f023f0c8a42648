"""A registry in its own thread, against a running server."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import trio

from barnabas.client.client_config import ClientConfig
from barnabas.registry.service.registry_process import RegistrySettings, run_registry


@contextmanager
def live_registry(
    bootstrap: str,
    topic: str = "_schemas",
    properties: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[str]:
    """Run a registry and return its URL; it ends with the block.

    `properties` are those of its Kafka client, `settings` those of `RegistrySettings`.
    """
    started = threading.Event()
    found: list[str] = []
    failures: list[BaseException] = []
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap, **(properties or {})})
    given = {"port": 0, "topic": topic, "group_id": f"group of {topic}", **settings}

    async def serve() -> None:
        tokens.append(trio.lowlevel.current_trio_token())

        def on_ready(url: str) -> None:
            found.append(url)
            started.set()

        try:
            with scope:
                await run_registry(RegistrySettings(client, **given), on_ready=on_ready)
        except BaseException as error:
            failures.append(error)
            started.set()

    thread = threading.Thread(target=trio.run, args=(serve,), daemon=True)
    thread.start()
    assert started.wait(60), "the registry did not start"
    if failures:
        raise failures[0]
    try:
        yield found[0]
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join(60)
