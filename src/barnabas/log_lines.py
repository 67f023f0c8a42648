"""Log lines of every process: one line each, `key=value`, or JSON for programs."""

import json
import logging
import re
import sys
import time

from barnabas.control_characters import escape_control_characters

TRACE = 5
"""The level below DEBUG, which BROKER_LOGGER resources have."""

_PAIR = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z info server.node message key=value`.

    The lines of one node out of several on a machine have its name after the level.
    """

    def __init__(self, process: str = "") -> None:
        tag = f"{process} " if process else ""
        super().__init__(f"%(asctime)s %(levelname)s {tag}%(name)s %(message)s")
        self.process = process
        self._second = (-1, "")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Return the time of a record; the records of one second share its text."""
        second = int(record.created)
        if second != self._second[0]:
            self._second = (second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)))
        return f"{self._second[1]}.{int(record.msecs):03d}Z"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the line without a traceback: values of clients begin no other line."""
        record.message = escape_control_characters(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; a traceback follows on further lines."""
        name, level = record.name, record.levelname
        record.name, record.levelname = name.removeprefix("barnabas."), level.lower()
        try:
            return super().format(record)
        finally:
            record.name, record.levelname = name, level


class JsonFormatter(TextFormatter):
    """One JSON object a line; the message's `key=value` pairs are separate members."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, a traceback within it."""
        message = record.getMessage()
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("barnabas."),
            **({"process": self.process} if self.process else {}),
            "message": _PAIR.sub("", message).strip(),
        }
        for name, value in _PAIR.findall(message):
            entry.setdefault(name, value)  # a value of a client gives no other time or level
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def set_up_logging(level: str, form: str, process: str = "") -> None:
    """Send the node's lines to stderr, from `level` up, as "text" or "json".

    `process` is the name of a node whose lines go where those of other nodes go.
    """
    logging.addLevelName(TRACE, "TRACE")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(process) if form == "json" else TextFormatter(process))
    root = logging.getLogger("barnabas")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
