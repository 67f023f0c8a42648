"""Requests that a runner on standby passes on to the active one, as Java's Connect does.

The parameter `forward` counts hops: the first runner adds `forward=true`, the second
`forward=false`, and a third refuses. So a request ends when the runners do not agree on who is
active.
"""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs

from barnabas.http import HttpTls
from barnabas.http_failures import reason_of
from barnabas.pipeline.connect.rest_errors import ConnectRestError, NotActiveError

_TIMEOUT_S: Final = 90.0
_PARAMETER: Final = "forward"
_NEXT: Final[Mapping[str | None, str]] = {None: "true", "true": "false"}
SENT_HEADERS: Final = ("authorization", "content-type", "accept")
RETURNED_HEADERS: Final = ("content-type", "location", "retry-after")


@attrs.frozen
class ForwardedAnswer:
    """The answer of the active runner."""

    status: int
    headers: dict[str, str]
    body: bytes


class RequestForwarding:
    """Passes requests on to the active runner."""

    def __init__(self, tls: HttpTls | None = None) -> None:
        self._context = None if tls is None else peer_context(tls)

    async def send(
        self,
        error: NotActiveError,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        first_caller: Callable[[str], Mapping[str, str]] = lambda path: {},
    ) -> ForwardedAnswer:
        """Return the active runner's answer to a request that this runner refused.

        `first_caller` returns the headers that state its caller, for the path of the new request.
        Raises ConnectRestError: 409 without an active runner or after two hops, 500 when it does
        not answer.
        """
        next_query = query_of_next_hop(query)
        if next_query is None or not error.active_url:
            raise error
        url = f"{error.active_url}{path}?{next_query}"
        sent = {name: headers[name] for name in SENT_HEADERS if name in headers}
        sent |= first_caller(urlsplit(url).path)
        return await self._exchange(method, url, sent, body)

    async def _exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> ForwardedAnswer:
        import httpx

        try:
            # Runners are reached without the proxies of the environment.
            async with httpx.AsyncClient(
                timeout=_TIMEOUT_S,
                follow_redirects=True,
                trust_env=False,
                verify=self._context or ssl.create_default_context(),
            ) as client:
                answer = await client.request(
                    method, url, headers=headers, content=body if body else None
                )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            place = urlsplit(url).netloc
            message = f"IO Error trying to forward REST request: {place}: {reason_of(error)}"
            raise ConnectRestError(500, message) from None
        return _answer(answer.status_code, answer.headers, answer.content)


def _answer(status: int, headers: Mapping[str, str], body: bytes) -> ForwardedAnswer:
    kept = {name: value for name, value in headers.items() if name.lower() in RETURNED_HEADERS}
    return ForwardedAnswer(status, kept, body)


def query_of_next_hop(query: str) -> str | None:
    """Return the query of a request that is passed on, None after two hops."""
    parameters = parse_qsl(query, keep_blank_values=True)
    hop = _NEXT.get(next((value for name, value in parameters if name == _PARAMETER), None))
    kept = [(name, value) for name, value in parameters if name != _PARAMETER]
    return None if hop is None else urlencode([*kept, (_PARAMETER, hop)])


def peer_context(tls: HttpTls) -> ssl.SSLContext:
    """Return how to trust other runners, which may share a self-signed certificate."""
    context = ssl.create_default_context(cafile=_text(tls.client_ca_file))
    context.load_verify_locations(tls.certificate_file)
    if tls.client_ca_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password or "")
    return context


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
