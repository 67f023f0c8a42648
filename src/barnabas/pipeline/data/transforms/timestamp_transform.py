"""TimestampConverter: points in time as texts, numbers or Connect's logical types."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from barnabas.pipeline.data import connect_schema as schemas
from barnabas.pipeline.data.connect_errors import ConnectError, DataError
from barnabas.pipeline.data.connect_schema import (
    DATE_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    Schema,
    Struct,
    Type,
    class_name,
    struct_schema,
    with_default,
)
from barnabas.pipeline.data.date_format import DateFormat, DatePatternError
from barnabas.pipeline.data.java_values import INT64_MAX, INT64_MIN, EpochMillis
from barnabas.pipeline.data.records import ConnectRecord, ConnectValue
from barnabas.pipeline.data.transforms.transform_base import (
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Changed,
    DerivedSchemas,
    KeyOrValueTransform,
    field_value,
    fields_of,
    property_of,
    require_map,
    require_struct,
)
from barnabas.pipeline.definitions.config_def import ConfigDef, Importance
from barnabas.pipeline.definitions.config_types import ConfigType, ConfigValueError, ParsedValue
from barnabas.pipeline.definitions.config_validators import OneOf

_PURPOSE: Final = "converting timestamp formats"
_MILLIS_PER_DAY: Final = 86_400_000
_CENTURY_YEARS: Final = 80
# (units in a millisecond, milliseconds in a unit)
_PRECISIONS: Final = {
    "nanoseconds": (1_000_000, 1),
    "microseconds": (1_000, 1),
    "milliseconds": (1, 1),
    "seconds": (1, 1_000),
}
_TARGETS: Final = {
    "string": (schemas.STRING, schemas.OPTIONAL_STRING),
    "unix": (schemas.INT64, schemas.OPTIONAL_INT64),
    "Date": (schemas.DATE, schemas.OPTIONAL_DATE),
    "Time": (schemas.TIME, schemas.OPTIONAL_TIME),
    "Timestamp": (schemas.TIMESTAMP, schemas.OPTIONAL_TIMESTAMP),
}
_LOGICAL: Final = {DATE_NAME: "Date", TIME_NAME: "Time", TIMESTAMP_NAME: "Timestamp"}


def _truncated(number: int, divisor: int) -> int:
    """Return a quotient without its fraction, as Java divides."""
    return -(-number // divisor) if number < 0 else number // divisor


def _saturated(number: int) -> int:
    return min(max(number, INT64_MIN), INT64_MAX)


class TimestampConverter(KeyOrValueTransform):
    """Converts one field, or the whole."""

    definition = ConfigDef(
        [
            property_of(
                "field",
                ConfigType.STRING,
                Importance.HIGH,
                "The field with the timestamp; the whole when empty.",
                default="",
            ),
            property_of(
                "target.type",
                ConfigType.STRING,
                Importance.HIGH,
                "The type to convert to: string, unix, Date, Time or Timestamp.",
                validator=OneOf(tuple(_TARGETS)),
            ),
            property_of(
                "format",
                ConfigType.STRING,
                Importance.MEDIUM,
                "The form of texts, as a pattern of java.text.SimpleDateFormat.",
                default="",
            ),
            property_of(
                "unix.precision",
                ConfigType.STRING,
                Importance.LOW,
                "The unit of numbers: seconds, milliseconds, microseconds or nanoseconds.",
                default="milliseconds",
                validator=OneOf(tuple(_PRECISIONS)),
            ),
            REPLACE_NULL_KEY,
        ]
    )

    def accept(self, values: Mapping[str, ParsedValue]) -> None:
        """Take the parsed properties. Raises ConfigValueError."""
        self._field = str(values["field"])
        self._target = str(values["target.type"])
        self._precision = _PRECISIONS[str(values["unix.precision"])]
        self._replaces_null = values[REPLACE_NULL] is True
        pattern = str(values["format"])
        if self._target == "string" and not pattern.strip():
            raise ConfigValueError(
                "TimestampConverter requires format option to be specified when using string "
                "timestamps"
            )
        self._format = _date_format(pattern) if pattern.strip() else None
        self._schemas = DerivedSchemas(self._derived)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: ConnectValue
    ) -> Changed | None:
        """Return the value with its timestamp converted."""
        if schema is None:
            if value is None or not self._field:
                return None, self._converted(value, _kind_of_value(value))
            updated = dict(require_map(value, _PURPOSE))
            found = updated.get(self._field)
            updated[self._field] = self._converted(found, _kind_of_value(found))
            return None, updated
        if not self._field:
            target = _TARGETS[self._target][schema.optional]
            return target, self._converted(value, _kind_of_schema(schema))
        struct = None if value is None else require_struct(value, _PURPOSE, schema)
        updated_schema: Schema = self._schemas.of(schema)
        if struct is None:
            return updated_schema, None
        return updated_schema, Struct(updated_schema, self._values(struct))

    def _values(self, struct: Struct) -> list[Any]:
        values: list[Any] = []
        for field in struct.schema.fields:
            found = field_value(struct, field, replaces_null=self._replaces_null)
            if field.name == self._field:
                found = self._converted(found, _kind_of_schema(field.schema))
            values.append(found)
        return values

    def _derived(self, schema: Schema) -> Schema:
        fields = [
            (
                field.name,
                _TARGETS[self._target][field.schema.optional]
                if field.name == self._field
                else field.schema,
            )
            for field in fields_of(schema)
        ]
        built = struct_schema(fields, like=schema, optional=schema.optional)
        if schema.default is None:
            return built
        return with_default(built, Struct(built, self._values(schema.default)))

    def _converted(self, value: ConnectValue, kind: str) -> ConnectValue:
        if value is None:
            return None
        ms = self._milliseconds(value, kind)
        match self._target:
            case "string":
                return self._required_format().format(ms)
            case "unix":
                per_millisecond, milliseconds = self._precision
                return _saturated(_truncated(ms, milliseconds) * per_millisecond)
            case "Date":
                return EpochMillis(ms - ms % _MILLIS_PER_DAY)
            case "Time":
                return EpochMillis(ms % _MILLIS_PER_DAY)
            case _:
                return EpochMillis(ms)

    def _milliseconds(self, value: ConnectValue, kind: str) -> int:
        if kind == "string":
            return self._parsed(value)
        if kind == "unix":
            if type(value) is not int:
                raise DataError(
                    f"Expected Unix timestamp to be a Long, but found class {class_name(value)}"
                )
            per_millisecond, milliseconds = self._precision
            return _saturated(_truncated(value, per_millisecond) * milliseconds)
        if not isinstance(value, EpochMillis):
            raise DataError(
                f"Expected {kind} to be a java.util.Date, but found class {class_name(value)}"
            )
        return value.ms

    def _parsed(self, value: ConnectValue) -> int:
        if not isinstance(value, str):
            raise DataError(
                f"Expected string timestamp to be a String, but found class {class_name(value)}"
            )
        date_format = self._required_format()
        ms = date_format.parse(value)
        if ms is None:
            raise DataError(
                f"Could not parse timestamp: value ({value}) does not match pattern "
                f"({date_format.pattern})"
            )
        return ms

    def _required_format(self) -> DateFormat:
        if self._format is None:
            raise DataError("format must be set to convert texts")
        return self._format


def _date_format(pattern: str) -> DateFormat:
    """Return a format; two digits of a year mean one of the 80 years before now or the 20 after."""
    try:
        return DateFormat(pattern, datetime.now(UTC).year - _CENTURY_YEARS)
    except DatePatternError as error:
        name = (
            "TimestampConverter requires a SimpleDateFormat-compatible pattern for string "
            f"timestamps: {pattern}"
        )
        reason = f"java.lang.IllegalArgumentException: {error}"
        raise ConfigValueError.of(name, reason) from error


def _kind_of_schema(schema: Schema) -> str:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def _kind_of_value(value: ConnectValue) -> str:
    if value is None or isinstance(value, EpochMillis):
        return "Timestamp"
    if type(value) is int:
        return "unix"
    if isinstance(value, str):
        return "string"
    raise DataError(
        f"TimestampConverter does not support class {class_name(value)} objects as timestamps"
    )


class TimestampConverterKey(TimestampConverter):
    """Converts in the key."""

    java_class = "org.apache.kafka.connect.transforms.TimestampConverter$Key"
    is_of_key = True


class TimestampConverterValue(TimestampConverter):
    """Converts in the value."""

    java_class = "org.apache.kafka.connect.transforms.TimestampConverter$Value"
    is_of_key = False
