"""A runner in its own thread, against a running server, with an engine without Spark."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import trio

from barnabas.access.topic_authorizer import TopicAuthorizer
from barnabas.http import HttpOptions, ListenAddress
from barnabas.pipeline.jobs.runner_settings import RunnerSettings
from barnabas.pipeline.runner.runner_process import RunnerListen, run_runner
from tests.pipeline.runner.fake_engine import FakeEngine

_TIMEOUT_S = 120.0


class LiveRunner:
    """A runner, its engine, and requests to it."""

    def __init__(self, url: str, engine: FakeEngine, bootstrap: str) -> None:
        self.url = url
        self.bootstrap = bootstrap
        self.engine = engine

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        authorization: str = "",
    ) -> tuple[int, Any]:
        """Return status and JSON body of a response."""
        data = body if isinstance(body, bytes) else None
        if body is not None and data is None:
            data = json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Authorization": authorization}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            with error:
                text, status = error.read(), error.code
        return status, json.loads(text) if text else None

    def states(self, name: str) -> list[str]:
        """Return the state of a connector and those of its tasks, empty when unknown."""
        status, found = self.ask("GET", f"/connectors/{name}/status")
        if status != 200:
            return []
        return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]

    def wait_states(self, name: str, *states: str) -> None:
        """Wait until a connector and its tasks have these states."""
        eventually(lambda: self.states(name) == list(states), lambda: self.states(name))

    def is_healthy(self) -> bool:
        """True when the runner is ready."""
        return self.ask("GET", "/health")[0] == 200


def eventually(condition: Callable[[], bool], shown: Callable[[], Any] = lambda: "") -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, shown()
        time.sleep(0.02)


@contextmanager
def live_runner(
    bootstrap: str,
    engine: FakeEngine | None = None,
    *,
    http: HttpOptions | None = None,
    more: Mapping[str, str] | None = None,
    serve_sql: Callable[..., Awaitable[None]] | None = None,
    sql_url: str = "",
    **properties: str,
) -> Iterator[LiveRunner]:
    """Run a runner; it ends with the block. `_` in names of properties replaces the dot.

    `more` are properties under their own names, `serve_sql` gets SQL where they enable it,
    and `sql_url` is where other runners reach it.
    """
    started = threading.Event()
    found: list[str] = []
    failures: list[BaseException] = []
    tokens: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()
    used = engine or FakeEngine()
    named = {name.replace("_", "."): value for name, value in properties.items()}
    settings = RunnerSettings.from_properties(
        {"bootstrap.servers": bootstrap, **named, **(more or {})}
    )

    async def serve() -> None:
        tokens.append(trio.lowlevel.current_trio_token())

        def on_ready(url: str) -> None:
            found.append(url)
            started.set()

        try:
            with scope:
                listen = RunnerListen(
                    ListenAddress("127.0.0.1", 0),
                    http or HttpOptions(),
                    authorizer=TopicAuthorizer,
                    serve_sql=serve_sql,
                    sql_url=sql_url,
                )
                await run_runner(settings, listen, used, on_ready)
        except BaseException as error:
            failures.append(error)
            started.set()
            raise

    thread = threading.Thread(target=_run_quietly, args=(serve,), daemon=True)
    thread.start()
    assert started.wait(_TIMEOUT_S), "the runner did not start"
    assert not failures, failures
    try:
        yield LiveRunner(found[0], used, bootstrap)
    finally:
        with suppress(trio.RunFinishedError):
            tokens[0].run_sync_soon(scope.cancel)
        thread.join(_TIMEOUT_S)
        assert not thread.is_alive(), "the runner did not end"
        assert not failures, failures


def _run_quietly(serve: Callable[[], Any]) -> None:
    """Run a runner; the test has its failure."""
    with suppress(BaseException):
        trio.run(serve)
