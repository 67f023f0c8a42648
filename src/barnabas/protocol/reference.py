"""The construct form of the declarations: one construct `Struct` for each version of a message.

This is the readable reference. The tests hold the compiled codec equal to it, byte for byte and
error for error; the inspector uses it because it knows the position of each field. It is ten times
slower than the compiled codec, and the server never imports it.

construct_of(FetchRequest, 12): the construct; its parse returns a Container
decode(FetchRequest, 12, data): a message, like FetchRequest.decode
encode(message, 12): bytes, like message.encode
locate(FetchRequest, 12, data): the fields with the positions of their bytes
"""

from functools import lru_cache
from io import BytesIO
from typing import Any, Final, NamedTuple, TypeVar, cast

import construct as c

from barnabas.protocol.codec.layout import Layout, WireField, layout_of
from barnabas.protocol.errors import EncodingError, ProtocolError
from barnabas.protocol.fields import Kind
from barnabas.protocol.messages_base import Message, Struct, default_value, is_default
from barnabas.protocol.types import Uuid

MessageT = TypeVar("MessageT", bound=Message)

TAGGED: Final = "_tagged_fields"
"""The key of the tagged section in a Container: declared fields by name, others by tag."""

_STRING_MAX: Final = 0x7FFF
_INT32_MAX: Final = 0x7FFF_FFFF
_FAULTS: Final = (c.ConstructError, UnicodeError)
_UNFIT: Final = (c.ConstructError, TypeError, AttributeError, ValueError, OverflowError)


class Located(NamedTuple):
    """A field of a decoded message: its value, and its bytes from `start` to `end`.

    The value of a struct is a dict of its fields, that of an array a list of its elements, all
    Located. The bytes of a tagged field exclude its tag and size.
    """

    name: str
    value: Any
    start: int
    end: int
    wire: WireField | None
    """The declaration; None for undeclared tagged fields."""


def _read(form: Any, stream: Any, context: Any, path: str) -> Any:
    return form._parsereport(stream, context, path)


class UnsignedVarint(c.Construct):
    """An unsigned 32-bit integer, seven bits in a byte, lowest bits first (KIP-482)."""

    def _parse(self, stream: Any, context: Any, path: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = c.stream_read(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if value > 0xFFFF_FFFF or byte >= 0x80:
            raise c.IntegerError("a varint has more than 32 bits", path=path)
        return value

    def _build(self, obj: int, stream: Any, context: Any, path: str) -> int:
        left = obj
        while left > 0x7F:
            c.stream_write(stream, bytes((left & 0x7F | 0x80,)), 1, path)
            left >>= 7
        c.stream_write(stream, bytes((left,)), 1, path)
        return obj


UVARINT: Final = UnsignedVarint()

NUMBERS: Final[dict[Kind, Any]] = {
    Kind.INT8: c.Int8sb,
    Kind.INT16: c.Int16sb,
    Kind.UINT16: c.Int16ub,
    Kind.INT32: c.Int32sb,
    Kind.UINT32: c.Int32ub,
    Kind.INT64: c.Int64sb,
    Kind.FLOAT64: c.Float64b,
}


class Boolean(c.Adapter):
    """A byte: zero is False, anything else True."""

    def _decode(self, obj: int, context: Any, path: str) -> bool:
        return obj != 0

    def _encode(self, obj: object, context: Any, path: str) -> int:
        return 1 if obj else 0


class UuidBytes(c.Adapter):
    """Sixteen bytes as a `Uuid`."""

    def _decode(self, obj: bytes, context: Any, path: str) -> Uuid:
        return Uuid(obj)

    def _encode(self, obj: bytes, context: Any, path: str) -> bytes:
        return bytes(obj)


class Length(c.Adapter):
    """The length or count that follows; None for null.

    A compact length is a varint one higher than its value, and 0 is null; otherwise null is -1.
    """

    def __init__(self, number: Any, *, compact: bool, nullable: bool, most: int) -> None:
        super().__init__(UVARINT if compact else number)
        self.null = 0 if compact else -1
        self.shift = 1 if compact else 0
        self.nullable = nullable
        self.most = most

    def _decode(self, obj: int, context: Any, path: str) -> int | None:
        if obj == self.null and self.nullable:
            return None
        length = obj - self.shift
        if not 0 <= length <= self.most:
            raise c.ValidationError(f"a length of {length}", path=path)
        return length

    def _encode(self, obj: int | None, context: Any, path: str) -> int:
        if obj is None:
            if not self.nullable:
                raise c.ValidationError("null in a field that is not nullable", path=path)
            return self.null
        if obj > self.most:
            raise c.ValidationError(f"a length of {obj}", path=path)
        return obj + self.shift


class Sized(c.Subconstruct):
    """Bytes after their length, or None."""

    def _parse(self, stream: Any, context: Any, path: str) -> bytes | None:
        length = _read(self.subcon, stream, context, path)
        return None if length is None else c.stream_read(stream, length, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.subcon._build(None if obj is None else len(obj), stream, context, path)
        if obj is not None:
            c.stream_write(stream, bytes(obj), len(obj), path)
        return obj


class Text(c.Adapter):
    """UTF-8 text after its length, or None."""

    def _decode(self, obj: bytes | None, context: Any, path: str) -> str | None:
        return None if obj is None else str(obj, "utf-8")

    def _encode(self, obj: str | None, context: Any, path: str) -> bytes | None:
        return None if obj is None else obj.encode()


class Elements(c.Subconstruct):
    """Elements after their count, or None."""

    def __init__(self, count: Any, element: Any) -> None:
        super().__init__(element)
        self.count = count

    def _parse(self, stream: Any, context: Any, path: str) -> list[Any] | None:
        count = _read(self.count, stream, context, path)
        if count is None:
            return None
        return [_read(self.subcon, stream, context, f"{path}[{i}]") for i in range(count)]

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        self.count._build(None if obj is None else len(obj), stream, context, path)
        for index, element in enumerate(obj or ()):
            self.subcon._build(element, stream, context, f"{path}[{index}]")
        return obj


class Nullable(c.Subconstruct):
    """A struct after a byte that says whether it is present."""

    def __init__(self, struct: Any, *, null: int) -> None:
        super().__init__(struct)
        self.null = null

    def _parse(self, stream: Any, context: Any, path: str) -> Any:
        marker = _read(NUMBERS[Kind.INT8], stream, context, path)
        if marker == self.null:
            return None
        if marker != 1:
            raise c.ValidationError(f"a struct has the marker {marker}", path=path)
        return _read(self.subcon, stream, context, path)

    def _build(self, obj: Any, stream: Any, context: Any, path: str) -> Any:
        NUMBERS[Kind.INT8]._build(self.null if obj is None else 1, stream, context, path)
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj


class TaggedSection(c.Construct):
    """The tagged section: fields at their default are omitted; each has its tag and size.

    Parses to a dict: declared fields by name, others as bytes by tag.
    """

    def __init__(self, declared: dict[int, tuple[str, Any]], located: bool) -> None:
        super().__init__()
        self.declared = declared
        self.located = located

    def _parse(self, stream: Any, context: Any, path: str) -> dict[str | int, Any]:
        found: dict[int, Any] = {}
        count = _read(UVARINT, stream, context, path)
        for _ in range(count):
            tag = _read(UVARINT, stream, context, path)
            size = _read(UVARINT, stream, context, path)
            if tag in found:
                raise c.ValidationError(f"tag {tag} occurs twice", path=path)
            start = c.stream_tell(stream, path)
            if tag in self.declared:
                found[tag] = _read(self.declared[tag][1], stream, context, path)
            else:
                data = c.stream_read(stream, size, path)
                end = start + size
                found[tag] = Located(str(tag), data, start, end, None) if self.located else data
            if c.stream_tell(stream, path) != start + size:
                raise c.ValidationError(f"tag {tag} does not take {size} bytes", path=path)
        return {self.declared[tag][0] if tag in self.declared else tag: found[tag] for tag in found}

    def _build(self, obj: dict[str | int, Any], stream: Any, context: Any, path: str) -> Any:
        fields: dict[int, bytes] = {t: obj[t] for t in obj if isinstance(t, int)}
        for tag, (name, field) in self.declared.items():
            if name in obj:
                if tag in fields:
                    raise c.ValidationError(f"tag {tag} occurs twice", path=path)
                fields[tag] = field.build(obj[name])
        UVARINT._build(len(fields), stream, context, path)
        for tag in sorted(fields):
            if tag < 0:
                raise c.ValidationError("a negative tag", path=path)
            UVARINT._build(tag, stream, context, path)
            UVARINT._build(len(fields[tag]), stream, context, path)
            c.stream_write(stream, fields[tag], len(fields[tag]), path)
        return obj


class _Locator(c.Subconstruct):
    """Wraps its result in `Located`."""

    def __init__(self, subcon: Any, name: str, wire: WireField) -> None:
        super().__init__(subcon)
        self.field_name = name
        self.wire = wire

    def _parse(self, stream: Any, context: Any, path: str) -> Located:
        start = c.stream_tell(stream, path)
        value = _read(self.subcon, stream, context, path)
        return Located(self.field_name, value, start, c.stream_tell(stream, path), self.wire)


@lru_cache(maxsize=1024)
def construct_of(message: type[Message], version: int, *, located: bool = False) -> Any:
    """Return the construct of a version. `located` wraps every field.

    Raises ValueError when there is no such version.
    """
    return _struct(layout_of(message, version), located)


def _struct(layout: Layout, located: bool) -> Any:
    fields = [
        field.name / _placed(_field(field, located), field, located) for field in layout.fields
    ]
    if layout.flexible:
        tagged = {
            field.field.tag or 0: (field.name, _placed(_field(field, located), field, located))
            for field in layout.tagged
        }
        fields.append(TAGGED / TaggedSection(tagged, located))
    return c.Struct(*fields)


def _placed(made: Any, field: WireField, located: bool) -> Any:
    return _Locator(made, field.name, field) if located else made


def _field(field: WireField, located: bool) -> Any:
    if field.kind is Kind.STRUCT:
        return _struct_field(field, located)
    if field.kind is Kind.ARRAY:
        count = Length(c.Int32sb, compact=field.compact, nullable=field.nullable, most=_INT32_MAX)
        if field.struct is not None:
            element = _struct(field.struct, located)
        else:
            element = _value(field.field.element, field.compact, nullable=False)
        if located:
            element = _Locator(element, "", field)
        return Elements(count, element)
    return _value(field.kind, field.compact, nullable=field.nullable)


def _struct_field(field: WireField, located: bool) -> Any:
    if field.struct is None:
        raise TypeError(f"{field.name} has no struct")
    made = _struct(field.struct, located)
    return Nullable(made, null=0 if field.field.varint_marker else -1) if field.nullable else made


def _value(kind: Kind | None, compact: bool, *, nullable: bool) -> Any:
    if kind in NUMBERS:
        return NUMBERS[kind]
    if kind is Kind.BOOLEAN:
        return Boolean(c.Int8ub)
    if kind is Kind.UUID:
        return UuidBytes(c.Bytes(16))
    if kind is Kind.STRING:
        length = Length(c.Int16sb, compact=compact, nullable=nullable, most=_STRING_MAX)
        return Text(Sized(length))
    return Sized(Length(c.Int32sb, compact=compact, nullable=nullable, most=0xFFFF_FFFF))


def decode(message: type[MessageT], version: int, data: bytes) -> MessageT:
    """Decode a message that fills `data`, like `Message.decode` and with the same errors."""
    container, end = _parsed(construct_of(message, version), message, version, data)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes follow a {message.__name__} v{version}")
    return cast(MessageT, _as_struct(layout_of(message, version), container))


def locate(
    message: type[Message], version: int, data: bytes, pos: int = 0
) -> tuple[dict[str, Any], int]:
    """Decode a message at `pos`: return its fields as `Located` by name, and the position after it.

    The fields of a tagged section are under `TAGGED`. Raises ProtocolError as `decode` does.
    """
    return _parsed(construct_of(message, version, located=True), message, version, data, pos)


def _parsed(
    form: Any, message: type[Message], version: int, data: bytes, pos: int = 0
) -> tuple[Any, int]:
    stream = BytesIO(data)
    stream.seek(pos)
    try:
        return form.parse_stream(stream), stream.tell()
    except _FAULTS as error:
        raise ProtocolError(f"{message.__name__} v{version}{_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    """Return construct's two-line message as one line, starting with the path of the field."""
    path, newline, text = str(error).partition("\n")
    if not newline:
        return f": {error}"
    return f"{path.removeprefix('Error in path (parsing)').replace(' -> ', '.')}: {text}"


def encode(message: Message, version: int) -> bytes:
    """Encode a message, like `Message.encode` and with the same errors."""
    layout = layout_of(type(message), version)
    try:
        return cast(bytes, construct_of(type(message), version).build(_as_dict(layout, message)))
    except EncodingError:
        raise
    except _UNFIT as error:
        raise EncodingError(f"{type(message).__name__} v{version}: {error}") from error


def _as_struct(layout: Layout, container: Any) -> Struct:
    made = object.__new__(layout.type)
    for field in layout.absent:
        setattr(made, field.name, default_value(layout.type, field))
    for field in layout.fields:
        setattr(made, field.name, _as_value(field, container[field.name]))
    section: dict[str | int, Any] = container[TAGGED] if layout.flexible else {}
    for field in layout.tagged:
        if field.name in section:
            setattr(made, field.name, _as_value(field, section[field.name]))
        else:
            setattr(made, field.name, default_value(layout.type, field.field))
    made._unknown = {tag: value for tag, value in section.items() if isinstance(tag, int)} or None
    return made


def _as_value(field: WireField, value: Any) -> Any:
    if field.struct is None or value is None:
        return value
    if field.kind is Kind.ARRAY:
        return [_as_struct(field.struct, element) for element in value]
    return _as_struct(field.struct, value)


def _as_dict(layout: Layout, struct: Struct) -> dict[str, Any]:
    for field in layout.absent:
        if not field.ignorable and not is_default(struct, field, getattr(struct, field.name)):
            raise EncodingError(f"version {layout.version} has no {field.name}")
    values = {field.name: _as_plain(field, getattr(struct, field.name)) for field in layout.fields}
    if not layout.flexible:
        if struct._unknown:
            raise EncodingError(f"version {layout.version} has no tagged fields")
        return values
    section: dict[str | int, Any] = dict((struct._unknown or {}).items())
    for field in layout.tagged:
        value = getattr(struct, field.name)
        if not is_default(struct, field.field, value):
            section[field.name] = _as_plain(field, value)
    return {**values, TAGGED: section}


def _as_plain(field: WireField, value: Any) -> Any:
    if field.struct is None or value is None:
        return value
    if field.kind is Kind.ARRAY:
        return [_as_dict(field.struct, element) for element in value]
    return _as_dict(field.struct, value)
