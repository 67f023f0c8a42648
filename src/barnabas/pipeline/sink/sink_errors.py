"""Errors of the sink: each message has the value that is wrong and the remedy."""


class SinkError(Exception):
    """Rows cannot be written, or a batch cannot be completed."""


class SinkOptionError(SinkError):
    """An option is unknown, missing, or has a value that the sink does not accept."""


class SinkColumnError(SinkError):
    """A column is missing or has another type, or a row has a value that no record can have."""
