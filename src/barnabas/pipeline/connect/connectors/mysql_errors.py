"""Errors of MariaDB and MySQL as Connect's: retriable ones, and rows that are never accepted."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

import pymysql
from pymysql.constants import CR, ER

from barnabas.pipeline.data.connect_errors import ConnectError, DataError, RetriableError

NO_SUCH_TABLE: Final = ER.NO_SUCH_TABLE

# A connection that is refused or lost, a deadlock, a wait that ended, a table that another task
# has changed, a server that stops, has no room, or is read-only for a while.
_PASSING: Final = frozenset(
    {
        CR.CR_CONNECTION_ERROR,
        CR.CR_CONN_HOST_ERROR,
        CR.CR_SERVER_GONE_ERROR,
        CR.CR_SERVER_LOST,
        CR.CR_SERVER_LOST_EXTENDED,
        ER.CHECKREAD,
        ER.CON_COUNT_ERROR,
        ER.TOO_MANY_USER_CONNECTIONS,
        ER.SERVER_SHUTDOWN,
        ER.LOCK_WAIT_TIMEOUT,
        ER.LOCK_DEADLOCK,
        ER.TABLE_DEF_CHANGED,
        ER.DISK_FULL,
        ER.RECORD_FILE_FULL,
        ER.OUT_OF_RESOURCES,
        ER.OPTION_PREVENTS_STATEMENT,
        ER.QUERY_INTERRUPTED,
        1927,  # MariaDB's ER_CONNECTION_KILLED
        4031,  # MySQL's ER_CLIENT_INTERACTION_TIMEOUT
    }
)
# The driver has these as errors of operation.
_OF_DATA: Final = frozenset(
    {
        ER.TRUNCATED_WRONG_VALUE,
        ER.NO_DEFAULT_FOR_FIELD,
        ER.DIVISION_BY_ZERO,
        ER.CONSTRAINT_FAILED,
        1690,  # ER_DATA_OUT_OF_RANGE
        3140,  # MySQL's ER_INVALID_JSON_TEXT
        3819,  # MySQL's ER_CHECK_CONSTRAINT_VIOLATED
    }
)
_OF_FOREIGN_KEYS: Final = frozenset(
    {
        ER.NO_REFERENCED_ROW,
        ER.NO_REFERENCED_ROW_2,
        ER.ROW_IS_REFERENCED,
        ER.ROW_IS_REFERENCED_2,
    }
)


@contextmanager
def driver_errors(statement: str) -> Generator[None]:
    """Raise the driver's errors as Connect's, with the statement.

    A value that a column or a constraint does not accept is refused again; a missing row of a
    foreign key may still come.
    """
    try:
        yield
    except pymysql.Error as error:
        raise _kind(error)(f"{_shown(error)} in: {statement}") from error
    except UnicodeEncodeError as error:
        raise DataError(
            f"{error.object!r} is not a valid Unicode string ({error.reason})"
        ) from error
    except RuntimeError as error:  # a missing package of the driver
        raise ConnectError(f"{error} in: {statement}") from error


def _kind(error: pymysql.Error) -> type[ConnectError]:
    code: Any = error.args[0] if error.args else 0
    if code in _PASSING or isinstance(error, pymysql.InterfaceError | pymysql.InternalError):
        return RetriableError
    if code in _OF_FOREIGN_KEYS:
        return RetriableError
    is_of_data = isinstance(error, pymysql.DataError | pymysql.IntegrityError)
    return DataError if is_of_data or code in _OF_DATA else ConnectError


def _shown(error: pymysql.Error) -> str:
    if isinstance(error, pymysql.InterfaceError):
        return "the connection is closed"
    return str(error.args[-1]) if error.args else type(error).__name__
