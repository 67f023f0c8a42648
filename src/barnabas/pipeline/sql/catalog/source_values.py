"""Sources as values: a stream or a table with its topic, columns and formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from barnabas.pipeline.sql.sql_types import SqlType
    from barnabas.pipeline.sql.statement_values import SourceKind

PSEUDO_COLUMNS: Final = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
WINDOW_BOUNDS: Final = ("WINDOWSTART", "WINDOWEND")
RESERVED_COLUMNS: Final = (*PSEUDO_COLUMNS, *WINDOW_BOUNDS)


Nulls = Literal["OPTIONAL", "WRAPPER"]
"""How a field of Protobuf can be NULL: it is `optional`, or a message of Protobuf's wrappers."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of the key or of the value."""

    name: str
    type: SqlType

    def __str__(self) -> str:
        """Return the name and the type, as `A` INTEGER."""
        return f"`{self.name}` {self.type}"


@dataclass(frozen=True)
class HeaderColumn:
    """A column of the headers: all of them, or the newest with the name `header`."""

    name: str
    type: SqlType
    header: str | None = None


@dataclass(frozen=True)
class Format:
    """A format of keys or values, with its settings."""

    name: str
    delimiter: str = ","
    is_wrapped: bool = True
    """False when a single column is the whole key or value, and not a field."""
    schema_id: int | None = None
    full_name: str | None = None
    """The name of the record or the message in the registry."""
    nulls: Nulls | None = None
    """How Protobuf has NULL of a number, a text or a boolean; without it NULL is the zero."""


@dataclass(frozen=True)
class SourceWindow:
    """The windows of a source's keys; sessions have no size."""

    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size_ms: int | None = None


@dataclass(frozen=True)
class Timestamp:
    """The column that has the time of a row; a text has a format of Java's DateTimeFormatter."""

    column: str
    format: str | None = None


@dataclass(frozen=True)
class Source:
    """A stream or a table."""

    kind: SourceKind
    name: str
    topic: str
    key: tuple[SourceColumn, ...]
    value: tuple[SourceColumn, ...]
    key_format: Format
    value_format: Format
    headers: tuple[HeaderColumn, ...] = ()
    window: SourceWindow | None = None
    timestamp: Timestamp | None = None
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    is_read_only: bool = False

    @property
    def is_table(self) -> bool:
        """True for a table."""
        return self.kind == "TABLE"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of all declared columns."""
        return tuple(each.name for each in (*self.key, *self.value, *self.headers))

    @property
    def schema(self) -> str:
        """The columns as ksqlDB shows them: `ID` INTEGER KEY, `A` STRING."""
        role = "PRIMARY KEY" if self.is_table else "KEY"
        columns = [f"{each} {role}" for each in self.key] + [str(each) for each in self.value]
        return ", ".join(columns)
