"""Errors that REST answers with a status and Connect's error body."""


class ConnectRestError(Exception):
    """A request is refused: HTTP status and message. The error code of the body is the status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class NotActiveError(ConnectRestError):
    """Only the active runner can carry a request out (409); its URL, empty while there is none."""

    def __init__(self, active_url: str) -> None:
        where = f"; the active one is {active_url}" if active_url else ""
        message = "Cannot complete request momentarily because this runner is on standby"
        super().__init__(409, message + where)
        self.active_url = active_url


def bad_request(message: str) -> ConnectRestError:
    """Return the error for a request that cannot be carried out as it is (400)."""
    return ConnectRestError(400, message)


def not_found(message: str) -> ConnectRestError:
    """Return the error for something that does not exist (404)."""
    return ConnectRestError(404, message)


def conflict(message: str) -> ConnectRestError:
    """Return the error for a request that cannot be carried out now (409)."""
    return ConnectRestError(409, message)
