"""Requests to the worker's REST API."""

import re
from collections.abc import Sequence
from typing import Any, Final, cast

import attrs

from barnabas.http_failures import reason_of
from barnabas.pipeline.java.worker_settings import USER

_TIMEOUT_S: Final = 90.0
_CONFLICT: Final = 409
_ERROR: Final = 500
_PASSING: Final = re.compile(
    r"rebalance|momentarily|IO Error trying to forward|Failed to (?:take|read) ", re.IGNORECASE
)


class WorkerUnreachableError(Exception):
    """The worker did not answer."""


@attrs.frozen
class WorkerAnswer:
    """The status and the JSON body of an answer; None without a body."""

    status: int
    body: Any

    @property
    def is_success(self) -> bool:
        """True when the request was carried out."""
        return self.status < 300

    @property
    def message(self) -> str:
        """The message of a refusal."""
        if isinstance(self.body, dict):
            return str(cast(dict[str, Any], self.body).get("message"))
        return f"The worker of Java's connectors answered {self.status}"

    @property
    def is_passing(self) -> bool:
        """True for a refusal of the moment: the worker's group agrees on who does what."""
        return self.status in (_CONFLICT, _ERROR) and _PASSING.search(self.message) is not None


@attrs.frozen
class WorkerClient:
    """Sends requests to one start of the worker."""

    url: str
    password: str = attrs.field(repr=False)

    async def send(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
    ) -> WorkerAnswer:
        """Return the answer. `path` is percent-encoded. Raises WorkerUnreachableError."""
        import httpx

        url = httpx.URL(self.url + path, params=list(query)) if query else self.url + path
        try:
            async with httpx.AsyncClient(
                timeout=_TIMEOUT_S, trust_env=False, auth=(USER, self.password)
            ) as client:
                answer = await client.request(
                    method, url, **({} if body is None else {"json": body})
                )
        except (httpx.HTTPError, OSError) as error:
            raise WorkerUnreachableError(reason_of(error)) from None
        try:
            found = answer.json() if answer.content else None
        except ValueError:
            found = {"error_code": answer.status_code, "message": answer.text}
        return WorkerAnswer(answer.status_code, found)
