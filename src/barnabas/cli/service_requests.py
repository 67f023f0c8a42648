"""Requests of commands to the HTTP service of a companion: options, answers, connection errors."""

from __future__ import annotations

import base64
import functools
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode, urlsplit

import click

from barnabas.cli.client_options import UNREACHABLE
from barnabas.cli.command_errors import CliError
from barnabas.http_failures import reason_of
from barnabas.sockets.keep_alive import end_when_host_vanishes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Generator

    import httpx

_NOT_FOUND = 404


class ServiceRefusalError(CliError):
    """The service refused a request with this HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ServiceClient:
    """Requests to one server; a service is a subclass."""

    service: ClassVar[str]
    """The name of the service in errors and in its option, which is --NAME."""
    remedy: ClassVar[str]
    """What to do when no server answers."""
    request: ClassVar[str] = "request"
    """What a person sends, in errors."""
    content_type: ClassVar[str]

    def __init__(self, url: str, credentials: str | None, ca: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CliError(f"Invalid value {url} for --{self.service}: it must be http://HOST:PORT")
        self.url = url.rstrip("/")
        self._timeout = timeout
        self._headers = {"Accept": self.content_type, "Content-Type": self.content_type}
        if credentials:
            self.authenticate(credentials)
        self._ca = ca

    def authenticate(self, credentials: str) -> None:
        """Send NAME:PASSWORD with each request."""
        encoded = base64.b64encode(credentials.encode()).decode()
        self._headers["Authorization"] = f"Basic {encoded}"

    def refusal(self, answer: httpx.Response) -> ServiceRefusalError:
        """Return the error that an answer describes."""
        raise NotImplementedError

    def ask(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """Return the answer as JSON, None for an empty one.

        Raises ServiceRefusalError or CliError.
        """
        text = self.ask_text(method, path, body, **query)
        return json.loads(text) if text else None

    def ask_text(self, method: str, path: str, body: Any = None, **query: object) -> str:
        """Return the answer as text. Raises ServiceRefusalError or CliError."""
        # Loaded here: other commands have these options too, and start faster without.
        import httpx

        given = {name: _query_text(value) for name, value in query.items() if value is not None}
        target = f"{self.url}{path}" + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        with (
            self._errors(is_query=method == "GET"),
            httpx.Client(
                headers=self._headers,
                timeout=self._timeout,
                follow_redirects=True,
                verify=self._trust(),
            ) as client,
        ):
            answer = client.request(method, target, content=data)
        if not answer.is_success:
            raise self.refusal(answer)
        return answer.content.decode()

    @contextmanager
    def streamed(self, method: str, path: str, body: Any, accept: str) -> Generator[httpx.Response]:
        """Yield the answer, of the type `accept`, before its body is there: that has no time limit.

        It ends half a minute after the server's host has vanished. The request is one that changes
        nothing. Raises ServiceRefusalError or CliError.
        """
        import httpx

        data = json.dumps(body).encode()
        with (
            self._errors(is_query=True),
            httpx.Client(
                headers={**self._headers, "Accept": accept},
                timeout=httpx.Timeout(self._timeout, read=None),
                verify=self._trust(),
            ) as client,
            client.stream(method, f"{self.url}{path}", content=data) as answer,
        ):
            if not answer.is_success:
                raise self.refusal(answer)
            end_when_host_vanishes(answer.extensions["network_stream"].get_extra_info("socket"))
            yield answer

    @contextmanager
    def _errors(self, *, is_query: bool = False) -> Generator[None]:
        """Raise CliError for a server that does not answer; a query changes nothing."""
        import httpx

        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ImportError) as error:
            # ImportError: the environment names a SOCKS proxy, which httpx needs a package for.
            raise self._failure(error, is_query=is_query) from None

    def _failure(self, error: Exception, *, is_query: bool) -> CliError:
        """Return the error of a request that failed; one that was sent may have run."""
        import httpx

        if isinstance(error, httpx.ReadTimeout):
            found = f"no answer in {self._timeout:g} s"
        elif _is_lost(error):
            found = "the connection ended before the answer"
        else:
            return CliError(
                f"{self.service} {self.url}: {reason_of(error)}; {self.remedy}", UNREACHABLE
            )
        if is_query:
            return CliError(
                f"{self.service} {self.url}: {found}; send the {self.request} again "
                "when it answers",
                UNREACHABLE,
            )
        return CliError(
            f"{self.service} {self.url}: {found}; the {self.request} may have been carried out: "
            "check before you send it again",
            UNREACHABLE,
        )

    def _trust(self) -> ssl.SSLContext:
        """Return the certificates that the client trusts."""
        import ssl

        return ssl.create_default_context(cafile=self._ca)

    def find(self, method: str, path: str, **query: object) -> Any:
        """Return the answer as JSON, None where there is none (404). Raises CliError."""
        try:
            return self.ask(method, path, **query)
        except ServiceRefusalError as refusal:
            if refusal.status != _NOT_FOUND:
                raise
            return None


def _is_lost(error: Exception) -> bool:
    """True when a server ended the connection behind a request."""
    import httpx

    # A peer that does not speak HTTP is a RemoteProtocolError, too.
    is_ended = isinstance(error, httpx.RemoteProtocolError) and "without sending" in str(error)
    return is_ended or isinstance(error, httpx.ReadError)


def _query_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def service_options(
    command: Callable[..., Any],
    argument: str,
    create: Callable[[str, str | None, str | None], ServiceClient | None],
    *,
    option: str,
    default_url: str,
    url_help: str,
    server: str,
) -> Callable[..., Any]:
    """Add a client of a service as `argument`, and the options that describe it.

    The options are --OPTION, --OPTION-user and --OPTION-ca; the environment variables are
    BARNABAS_OPTION and BARNABAS_OPTION_USER.
    """
    url_name, user_name, ca_name = (f"{option}_{part}" for part in ("url", "user", "ca"))

    @click.option(
        f"--{option}",
        url_name,
        metavar="URL",
        envvar=f"BARNABAS_{option.upper()}",
        default=default_url,
        show_default=bool(default_url),
        help=url_help,
    )
    @click.option(
        f"--{option}-user",
        user_name,
        metavar="NAME:PASSWORD",
        envvar=f"BARNABAS_{option.upper()}_USER",
        help="User and password for basic authentication.",
    )
    @click.option(
        f"--{option}-ca",
        ca_name,
        metavar="FILE",
        help=f"The authority that signed the {server}'s https certificate (PEM).",
    )
    @functools.wraps(command)
    def with_service(*arguments: Any, **options: Any) -> Any:
        client = create(*(options.pop(name) for name in (url_name, user_name, ca_name)))
        return command(*arguments, **{argument: client}, **options)

    return with_service
