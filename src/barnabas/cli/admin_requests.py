"""Admin requests that librdkafka does not have, sent with the project's own client."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.cli.client_options import hint_of
from barnabas.cli.command_errors import CliError
from barnabas.config import ConfigError
from barnabas.protocol.errors import EncodingError, error_code
from barnabas.protocol.messages_base import Message

if TYPE_CHECKING:
    from barnabas.cli.client_options import Client

R = TypeVar("R", bound=Message)


def ask(client: Client, request: Message, answer: type[R]) -> R:
    """Return the response of a broker; it forwards the request where the controller must decide.

    Raises CliError when no broker answers.
    """
    import trio

    from barnabas.client import AuthenticationError, ConnectionFailureError, open_client
    from barnabas.client import UnsupportedVersionError as TooOldError

    properties = {**client.properties, "bootstrap.servers": client.bootstrap}

    async def send() -> R:
        async with open_client(properties) as kafka:
            return await kafka.ask_any(request, answer, timeout_s=client.timeout)

    try:
        return trio.run(send)
    except (ConfigError, AuthenticationError, TooOldError, EncodingError) as error:
        raise CliError(str(error)) from None
    except ConnectionFailureError:
        raise client.unreachable() from None


def check(code: int, message: str | None, what: str) -> None:
    """Raise CliError about `what` for an error code of a response."""
    if code:
        name = error_code(code).name
        text = f"{message} ({name})" if message else name
        raise CliError(f"{what}: {text}{hint_of(name)}")
