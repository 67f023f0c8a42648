"""Errors of ksqlDB's REST API: a code whose first three digits are the HTTP status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BAD_REQUEST: Final = 40000
BAD_STATEMENT: Final = 40001
QUERY_ENDPOINT: Final = 40002
TOO_MANY_QUERIES: Final = 40003
FORBIDDEN: Final = 40300
FORBIDDEN_TOPIC: Final = 40301
NOT_FOUND: Final = 40400
WRONG_METHOD: Final = 40500
NOT_ACCEPTABLE: Final = 40600
UNSUPPORTED_TYPE: Final = 41500
ASSERTION_FAILED: Final = 41700
UPGRADE_NEEDED: Final = 42600
SERVER_ERROR: Final = 50000
SEQUENCE_UNKNOWN: Final = 50301
NOT_READY: Final = 50302


class SqlRestError(Exception):
    """A request that fails; with a statement, `entities` are the answers to those before it."""

    def __init__(
        self,
        code: int,
        message: str,
        statement: str | None = None,
        entities: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.statement = statement
        self.entities = entities

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.code // 100

    def body(self) -> dict[str, Any]:
        """Return the JSON of the error."""
        found: dict[str, Any] = {
            "@type": "generic_error" if self.statement is None else "statement_error",
            "error_code": self.code,
            "message": self.message,
        }
        if self.statement is not None:
            found |= {"statementText": self.statement, "entities": list(self.entities)}
        return found
