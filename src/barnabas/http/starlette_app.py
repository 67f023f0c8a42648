"""A Starlette application whose errors have one body: for rooms that serve a route table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from barnabas.http.asgi import ErrorBody, json_error
from barnabas.http.body_limit import BodyTooLargeError
from barnabas.http.hosted_app import INTERNAL_ERROR

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import Lifespan


def starlette_app(
    routes: "Sequence[BaseRoute]",
    *,
    lifespan: "Lifespan[Any] | None" = None,
    error_body: ErrorBody = json_error,
) -> "Starlette":
    """Return an application; unknown paths, wrong methods and HTTPException get `error_body`.

    So do bodies above the limit, and other exceptions as 500; the host logs those.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import Response as PlainResponse

    def response(status: int, message: str, headers: Mapping[str, str]) -> "Response":
        body = error_body(status, message)
        fields = {**headers, "content-type": body.media_type.decode()}
        return PlainResponse(body.data, status, fields)

    async def refuse(request: "Request", error: Exception) -> "Response":
        failure = cast(HTTPException, error)
        return response(failure.status_code, failure.detail, failure.headers or {})

    async def refuse_body(request: "Request", error: Exception) -> "Response":
        return response(413, str(error), {"connection": "close"})

    async def fail(request: "Request", error: Exception) -> "Response":
        return response(500, INTERNAL_ERROR, {"connection": "close"})

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: refuse,
            BodyTooLargeError: refuse_body,
            Exception: fail,
        },
    )
    app.router.redirect_slashes = False
    return app
