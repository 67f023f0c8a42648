"""Errors of data and of connectors, each with the class name that Java's Connect reports.

Dead letters, status and REST answers carry `java_class`, since tools match on it.
"""

from typing import ClassVar


class ConnectError(Exception):
    """A failure that ends the task, unless it is about one record and errors are tolerated."""

    java_class: ClassVar[str] = "org.apache.kafka.connect.errors.ConnectException"


class DataError(ConnectError):
    """A value or a schema is not valid."""

    java_class = "org.apache.kafka.connect.errors.DataException"


class NotRegisteredError(DataError):
    """The registry has no schema of an id, or no subject of a name."""


class SchemaBuilderError(DataError):
    """A schema cannot be built."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class RetriableError(ConnectError):
    """A failure that a later attempt may not meet."""

    java_class = "org.apache.kafka.connect.errors.RetriableException"


class UnknownFieldError(ConnectError):
    """A transformation names a field that the schema does not have."""

    java_class = "java.lang.IllegalArgumentException"


class EmptyPathError(ConnectError):
    """A path of nested fields has no name."""

    java_class = "java.lang.IllegalArgumentException"


class IllegalGroupError(ConnectError):
    """A replacement refers to a group in a wrong form."""

    java_class = "java.lang.IllegalArgumentException"


class NoSuchGroupError(ConnectError):
    """A replacement refers to a group that the regular expression does not have."""

    java_class = "java.lang.IndexOutOfBoundsException"


class DatePatternFailureError(ConnectError):
    """A pattern of dates is not valid."""

    java_class = "java.lang.IllegalArgumentException"


class NumberTextError(ConnectError):
    """A text is not a number."""

    java_class = "java.lang.NumberFormatException"


def java_class_of(error: BaseException) -> str:
    """Return the class name to report for an error: Java's, or Python's for any other."""
    name: object = getattr(error, "java_class", None)
    if isinstance(name, str):
        return name
    return f"{type(error).__module__}.{type(error).__qualname__}"
