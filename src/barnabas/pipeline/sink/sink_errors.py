"""Errors of the sink: each message has the value that is wrong and the remedy."""


class SinkError(Exception):
    """Rows cannot be written, or a batch cannot be completed."""


class SinkOptionError(SinkError):
    """An option is unknown, missing, or has a value that the sink does not accept."""


class SinkColumnError(SinkError):
    """A column is missing or has another type, or a row has a value that no record can have."""


def with_grants(message: str, name: str) -> str:
    """Return a message, with the ACLs to grant when brokers have refused a call for want of them.

    `name` is the name of the query, or the beginning of its transactional ids.
    """
    if "authorization failed" not in message.lower():
        return message
    return (
        f"{message}. Grant Write and Describe on the topics and on transactional ids with the "
        f"prefix {name}; a stream needs Create, Read and Write on topic {name}-commits, too"
    )
