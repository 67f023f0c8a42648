"""The reason of a failed HTTP exchange, for errors that a person reads.

It imports no HTTP library: those who send requests import httpx when they send the first.
"""


def reason_of(error: BaseException) -> str:
    """Return the text of the system's error behind an exception, or that of the exception."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        found = found.__cause__ or found.__context__
    return str(error) or type(error).__name__
