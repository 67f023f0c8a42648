"""A registry in its own thread, against a running server."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from barnabas.client.client_config import ClientConfig
from barnabas.registry.service.registry_process import RegistrySettings, run_registry


@contextmanager
def live_registry(bootstrap: str, topic: str = "_schemas") -> Iterator[str]:
    """Run a registry and return its URL; it ends with the block."""
    started = threading.Event()
    found: list[str] = []
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()

    async def serve() -> None:
        tokens.append(trio.lowlevel.current_trio_token())

        def on_ready(url: str) -> None:
            found.append(url)
            started.set()

        settings = RegistrySettings(
            ClientConfig.from_properties({"bootstrap.servers": bootstrap}),
            port=0,
            topic=topic,
            group_id=f"group of {topic}",
        )
        with scope:
            await run_registry(settings, on_ready=on_ready)

    thread = threading.Thread(target=trio.run, args=(serve,), daemon=True)
    thread.start()
    assert started.wait(60), "the registry did not start"
    try:
        yield found[0]
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join(60)
