"""A small JSON document at an address that the configuration names: an issuer's keys, a token.

It imports httpx when it fetches the first document.
"""

import json
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

from barnabas.http_failures import reason_of

_BYTES_MAX: Final = 1 << 20
_TIMEOUT_S: Final = 10.0
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class DocumentError(Exception):
    """A document could not be fetched, or is not a JSON object; the message says why."""


def check_address(url: str) -> None:
    """Raise DocumentError for an address over which others could change the document."""
    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        raise DocumentError("it must begin with https://, or with http:// of this machine")


def fetch_object(url: str) -> dict[str, object]:
    """Return the JSON object at an address; for a thread. Redirects are not followed.

    Raises DocumentError.
    """
    check_address(url)
    return as_object(_fetch(url))


def post_form(url: str, form: Mapping[str, str], username: str, password: str) -> dict[str, object]:
    """Return the JSON object that answers a form; for a thread. Redirects are not followed.

    Raises DocumentError.
    """
    check_address(url)
    return as_object(_fetch(url, form, (username, password)))


def as_object(data: bytes) -> dict[str, object]:
    """Return the JSON object in a document. Raises DocumentError."""
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not JSON: {error}") from None
    if not isinstance(found, Mapping):
        raise DocumentError("not a JSON object")
    return dict(cast("Mapping[str, object]", found))


def _fetch(
    url: str, form: Mapping[str, str] | None = None, credentials: tuple[str, str] | None = None
) -> bytes:
    import httpx

    try:
        method = "GET" if form is None else "POST"
        with httpx.stream(method, url, data=form, auth=credentials, timeout=_TIMEOUT_S) as response:
            if not response.is_success:
                raise DocumentError(f"status {response.status_code}")
            data = bytearray()
            for part in response.iter_bytes():
                data += part
                if len(data) > _BYTES_MAX:
                    raise DocumentError(f"larger than {_BYTES_MAX} bytes")
            return bytes(data)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise DocumentError(reason_of(error)) from None
