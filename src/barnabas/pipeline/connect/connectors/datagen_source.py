"""Made-up records for trials: a record is a function of its number, so a restart repeats nothing.

Kinds of records are orders, users and clicks, with schemas. The offset is the number of the next
record.
"""

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar, Final

from barnabas.pipeline.connect.plugin_api import OffsetReader, Properties, SourceTask
from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError
from barnabas.pipeline.data.connect_schema import Schema, Struct, struct_schema
from barnabas.pipeline.data.java_values import EpochMillis
from barnabas.pipeline.data.records import SourceRecord
from barnabas.pipeline.definitions.config_def import NO_DEFAULT, ConfigDef, ConfigKey, Importance
from barnabas.pipeline.definitions.config_types import ConfigType
from barnabas.pipeline.definitions.config_validators import InRange, OneOf, non_empty

_START_MS: Final = 1_700_000_000_000
_POLL_RECORDS: Final = 1000

_ORDERS: Final = struct_schema(
    [
        ("orderid", s.INT64),
        ("itemid", s.STRING),
        ("orderunits", s.FLOAT64),
        ("ordertime", s.TIMESTAMP),
        ("city", s.STRING),
    ],
    name="barnabas.datagen.Order",
)
_USERS: Final = struct_schema(
    [("userid", s.STRING), ("regionid", s.STRING), ("gender", s.STRING)],
    name="barnabas.datagen.User",
)
_CLICKS: Final = struct_schema(
    [("userid", s.STRING), ("page", s.STRING), ("viewtime", s.TIMESTAMP)],
    name="barnabas.datagen.Click",
)
_CITIES: Final = ("Prague", "Vienna", "Berlin", "Zurich", "Venice")


def _order(number: int, chance: Random) -> tuple[str, list[Any]]:
    units = round(chance.uniform(0.1, 20), 3)
    item = f"Item_{chance.randrange(1000)}"
    moment = EpochMillis(_START_MS + number * 1000)
    return str(number), [number, item, units, moment, chance.choice(_CITIES)]


def _user(number: int, chance: Random) -> tuple[str, list[Any]]:
    user = f"User_{chance.randrange(100)}"
    return user, [user, f"Region_{chance.randrange(10)}", chance.choice(("F", "M", "X"))]


def _click(number: int, chance: Random) -> tuple[str, list[Any]]:
    user = f"User_{chance.randrange(100)}"
    moment = EpochMillis(_START_MS + number * 250 + chance.randrange(250))
    return user, [user, f"Page_{chance.randrange(50)}", moment]


_Make = Callable[[int, Random], tuple[str, list[Any]]]
_KINDS: Final[Mapping[str, tuple[Schema, _Make]]] = {
    "orders": (_ORDERS, _order),
    "users": (_USERS, _user),
    "clicks": (_CLICKS, _click),
}


def _key(
    name: str, kind: ConfigType, default: Any, documentation: str, validator: Any = None
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        Importance.MEDIUM,
        documentation,
        validator=validator,
        display_name=name,
    )


_DEFINITION: Final = ConfigDef(
    [
        _key("topic", ConfigType.STRING, NO_DEFAULT, "The topic to write to.", non_empty),
        _key(
            "kind",
            ConfigType.STRING,
            "orders",
            "The kind of records: orders, users or clicks.",
            OneOf(tuple(_KINDS)),
        ),
        _key(
            "rate",
            ConfigType.INT,
            100,
            "Records a second of each task; 0 is without limit.",
            InRange(0),
        ),
        _key(
            "count",
            ConfigType.LONG,
            0,
            "The number of records of each task; 0 is without end.",
            InRange(0),
        ),
        _key("seed", ConfigType.LONG, 0, "Another seed gives other records."),
    ]
)


class DatagenSourceTask(SourceTask):
    """Makes the records of one task."""

    def start(self, props: Properties, offsets: OffsetReader) -> None:
        """Take the properties and the number of the next record."""
        values = _DEFINITION.parse(props)
        self._topic, self._task = str(values["topic"]), props.get("task", "0")
        self._schema, self._make = _KINDS[str(values["kind"])]
        self._rate, self._count = int(str(values["rate"])), int(str(values["count"]))
        self._seed = f"{values['seed']}/{self._task}"
        self._partition = {"task": self._task}
        committed = offsets.offset(self._partition) or {}
        self._next = int(committed.get("next", 0))
        self._first, self._started = self._next, time.monotonic()

    def poll(self) -> list[SourceRecord]:
        """Return the records that are due."""
        end = self._next + _POLL_RECORDS
        if self._rate:
            elapsed_s = time.monotonic() - self._started
            end = min(end, self._first + int(elapsed_s * self._rate))
        if self._count:
            end = min(end, self._count)
        records = [self._record(number) for number in range(self._next, end)]
        self._next = max(self._next, end)
        return records

    def _record(self, number: int) -> SourceRecord:
        key, values = self._make(number, Random(f"{self._seed}/{number}"))
        return SourceRecord(
            self._topic,
            None,
            time.time_ns() // 1_000_000,
            s.STRING,
            key,
            self._schema,
            Struct(self._schema, values),
            (),
            self._partition,
            {"next": number + 1},
        )


class DatagenSourceConnector:
    """Makes records with any number of tasks."""

    kind: ClassVar[str] = "source"
    java_class = "barnabas.DatagenSource"

    def config(self) -> ConfigDef:
        """Return the definition of the connector's properties."""
        return _DEFINITION

    def task_configs(self, props: Properties, max_tasks: int) -> list[dict[str, str]]:
        """Return the tasks, which differ in their seed."""
        return [{**props, "task": str(number)} for number in range(max_tasks)]

    def source_task(self) -> type[SourceTask]:
        """Return the class of the tasks."""
        return DatagenSourceTask

    def check_offset(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        """Raise ConnectError when an offset given by a user does not fit."""
        if offset is not None and (type(offset.get("next")) is not int or offset["next"] < 0):
            raise ConnectError("the offset must have the number of the next record as 'next'")
