"""The tree of a Protobuf file, close to the text: type names and option values as written."""

import attrs

SCALARS = frozenset(
    {
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    }
)

# The highest number of a field, written as ``max`` in ranges.
EDITIONS_REFUSED = 'editions of Protobuf are not supported: write syntax = "proto2" or "proto3"'
FIELD_NUMBER_MAX = 2**29 - 1


@attrs.frozen
class OptionValue:
    """A value of the kind ``string``, ``word`` (a number or a name), ``map`` or ``list``."""

    kind: str
    text: str = ""
    entries: "tuple[tuple[str, OptionValue], ...]" = ()
    items: "tuple[OptionValue, ...]" = ()


@attrs.frozen
class Option:
    """An option with its name as written, in parentheses when it is an extension."""

    name: str
    value: OptionValue


@attrs.frozen
class Range:
    """Numbers from ``first`` to ``last``, both included."""

    first: int
    last: int


@attrs.frozen
class Reserved:
    """A ``reserved`` statement: ranges of numbers and names, in order."""

    items: tuple[Range | str, ...]


@attrs.frozen
class Extensions:
    """An ``extensions`` statement."""

    ranges: tuple[Range, ...]


@attrs.frozen
class MapType:
    """``map<key, value>``."""

    key: str
    value: str


@attrs.frozen
class Field:
    """A field. ``label`` is empty, ``optional``, ``required`` or ``repeated``."""

    name: str
    number: int
    type: str | MapType
    label: str = ""
    options: tuple[Option, ...] = ()


@attrs.frozen
class Group:
    """A group of proto2: a field and a message in one."""

    label: str
    name: str
    number: int
    fields: tuple[Field, ...]


@attrs.frozen
class Oneof:
    """Fields of which at most one is set."""

    name: str
    fields: tuple[Field, ...]
    options: tuple[Option, ...] = ()
    groups: tuple[Group, ...] = ()


@attrs.frozen
class EnumConstant:
    """A named number."""

    name: str
    number: int
    options: tuple[Option, ...] = ()


@attrs.frozen
class EnumType:
    """An enum."""

    name: str
    constants: tuple[EnumConstant, ...] = ()
    options: tuple[Option, ...] = ()
    reserved: tuple[Reserved, ...] = ()


@attrs.frozen
class Extend:
    """Fields that extend another message."""

    name: str
    fields: tuple[Field, ...]


@attrs.frozen
class Message:
    """A message with all that is declared inside of it."""

    name: str
    fields: tuple[Field, ...] = ()
    oneofs: tuple[Oneof, ...] = ()
    groups: tuple[Group, ...] = ()
    messages: "tuple[Message, ...]" = ()
    enums: tuple[EnumType, ...] = ()
    extends: tuple[Extend, ...] = ()
    extensions: tuple[Extensions, ...] = ()
    reserved: tuple[Reserved, ...] = ()
    options: tuple[Option, ...] = ()


@attrs.frozen
class Rpc:
    """A method of a service."""

    name: str
    request: str
    response: str
    request_stream: bool = False
    response_stream: bool = False
    options: tuple[Option, ...] = ()


@attrs.frozen
class Service:
    """A service."""

    name: str
    rpcs: tuple[Rpc, ...] = ()
    options: tuple[Option, ...] = ()


@attrs.frozen
class Import:
    """An import; ``kind`` is empty, ``public`` or ``weak``."""

    path: str
    kind: str = ""


@attrs.frozen
class ProtoFile:
    """A whole file. ``syntax`` is None when the text does not say it, which means proto2."""

    syntax: str | None = None
    package: str = ""
    imports: tuple[Import, ...] = ()
    options: tuple[Option, ...] = ()
    messages: tuple[Message, ...] = ()
    enums: tuple[EnumType, ...] = ()
    extends: tuple[Extend, ...] = ()
    services: tuple[Service, ...] = ()
