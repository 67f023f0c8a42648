"""Helpers of the host's tests: an application on a free port and a client for it."""

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx
import trio
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from barnabas.http import HttpOptions, HttpSettings, ListenAddress, principal_of, serve_app

LOCAL = ListenAddress("127.0.0.1", 0)


async def hello(request: Request) -> Response:
    return PlainTextResponse(f"hello {principal_of(request.scope)}")


async def echo(request: Request) -> Response:
    return Response(await request.body())


async def fail(request: Request) -> Response:
    raise RuntimeError("a secret of the application")


async def fail_late(request: Request) -> Response:
    async def parts() -> Any:
        yield b"a"
        raise RuntimeError("late")

    return StreamingResponse(parts())


def example_app() -> Router:
    """Return an application that echoes and fails."""
    return Router(
        [
            Route("/", hello),
            Route("/echo", echo, methods=["POST"]),
            Route("/fail", fail),
            Route("/late", fail_late),
            Route("/json", lambda request: JSONResponse({})),
        ]
    )


Test = Callable[[httpx.AsyncClient], Awaitable[None]]


def with_host(
    test: Test,
    *,
    app: Any = None,
    verify: ssl.SSLContext | None = None,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Serve the example application, or `app`, and run a test against it."""

    async def main() -> None:
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            configured = HttpSettings(LOCAL, HttpOptions(**(settings or {})))
            url = await nursery.start(
                partial(serve_app, app or example_app(), configured, **options)
            )
            try:
                with trio.fail_after(60):
                    async with httpx.AsyncClient(base_url=url, verify=verify or True) as client:
                        await test(client)
            except Exception as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    trio.run(main)
