"""Structs and messages: classes made of declared fields, with a codec that is compiled on first
use.

A Struct is a group of fields within a message, declared as a class inside the message. A Message is
encoded on its own: decode, decode_from, encode, encode_parts.

Both are plain slotted classes with a keyword-only constructor; its source, like that of the readers
and writers, is generated on first use, which keeps imports cheap.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast, dataclass_transform

from barnabas.protocol.apis import api_by_name
from barnabas.protocol.errors import EncodingError, ProtocolError
from barnabas.protocol.fields import LAST_VERSION, NO_VERSIONS, Field, Kind, Versions

if TYPE_CHECKING:
    from barnabas.protocol.codec import Part, Reader, Writer

Buffer = bytes | bytearray | memoryview
"""The input of the decoders."""


class _StructMeta(type):
    """Turns the declarations of a class body into slots, and lists them in `FIELDS`."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_StructMeta":
        fields: dict[str, Field] = {}
        structs: dict[str, type[Struct]] = {}
        for key, value in list(namespace.items()):
            if type(value) is Field:
                value.name = key
                fields[key] = value
                del namespace[key]
            elif isinstance(value, _StructMeta):
                structs[key] = cast("type[Struct]", value)
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = fields
        namespace["STRUCTS"] = structs
        made = super().__new__(cls, name, bases, namespace, **options)
        for struct in structs.values():
            struct.STRUCTS = structs
        return made


class _Extensible:
    """Attributes that type checkers must not take for declared fields."""

    __slots__ = ("_unknown",)
    _unknown: dict[int, bytes] | None

    @property
    def unknown_tagged_fields(self) -> dict[int, bytes]:
        """Tagged fields that the decoded version does not declare, by tag; they are encoded
        unchanged.
        """
        if self._unknown is None:
            self._unknown = {}
        return self._unknown


@dataclass_transform(kw_only_default=True)
class Struct(_Extensible, metaclass=_StructMeta):
    """A group of fields; it compares by value, and its repr shows the fields that are not at their
    default.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    FIELDS: ClassVar[dict[str, Field]]
    STRUCTS: ClassVar[dict[str, "type[Struct]"]]
    """The structs of the message, by name."""
    VERSIONS: ClassVar[Versions]

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            cls = type(self)
            cls.__init__ = make_constructor(cls)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = cast(Any, self), cast(Any, other)
        return all(getattr(mine, name) == getattr(theirs, name) for name in self.FIELDS) and (
            (mine._unknown or None) == (theirs._unknown or None)
        )

    def __repr__(self) -> str:
        shown: list[str] = []
        for name, field in self.FIELDS.items():
            value = getattr(self, name)
            if field.secret and value:
                shown.append(f"{name}=<{len(value)} secret bytes>")
            elif field.kind is Kind.RECORDS and value is not None:
                shown.append(f"{name}=<{len(value)} bytes of records>")
            elif not is_default(self, field, value):
                shown.append(f"{name}={value!r}")
        if self._unknown:
            shown.append(f"unknown_tagged_fields={self._unknown!r}")
        return f"{type(self).__qualname__}({', '.join(shown)})"


class Message(Struct):
    """A request, a response, or a record: a unit that is encoded on its own, in one of its
    versions.
    """

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    """The api key of a request or response, otherwise -1."""
    RECORD_TYPE: ClassVar[int] = -1
    """The type of a metadata, coordinator or remote log record, otherwise -1."""
    VERSIONS: ClassVar[Versions] = NO_VERSIONS
    FLEXIBLE: ClassVar[Versions] = NO_VERSIONS
    """The versions with compact lengths and tagged fields."""

    _readers: ClassVar[dict[int, "Reader"]]
    _writers: ClassVar[dict[int, "Writer"]]

    def __init_subclass__(
        cls,
        *,
        api: str | None = None,
        versions: str = "none",
        flexible: str = "none",
        record_type: int = -1,
    ) -> None:
        """Read the arguments of the class statement.

        A request or response names its api, whose row in `apis` has the key and the versions.
        """
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)
        if api is not None:
            row = api_by_name(api)
            cls.API_KEY = row.key
            cls.VERSIONS = Versions(row.min_version, row.max_version)
            if row.flexible_version is not None:
                cls.FLEXIBLE = Versions(row.flexible_version, LAST_VERSION)
        cls.RECORD_TYPE = record_type
        cls._readers = {}
        cls._writers = {}

    @classmethod
    def decode(cls, data: Buffer, version: int) -> Self:
        """Decode a message that fills `data`.

        Raises ProtocolError for malformed bytes.
        """
        reader: Any = cls._readers.get(version) or cls._new_reader(version)
        message, end = reader(data, 0)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes follow a {cls.__name__} v{version}")
        return message

    @classmethod
    def decode_from(cls, data: Buffer, pos: int, version: int) -> tuple[Self, int]:
        """Decode a message at `pos`; return it and the position after it. Records fields are views
        of `data`.

        Raises ProtocolError for malformed bytes, ValueError when there is no such version.
        """
        reader: Any = cls._readers.get(version) or cls._new_reader(version)
        return reader(data, pos)

    @classmethod
    def _new_reader(cls, version: int) -> "Reader":
        from barnabas.protocol.codec import make_reader

        reader = cls._readers[version] = make_reader(cls, version)
        return reader

    def encode(self, version: int) -> bytes:
        """Return the message's bytes.

        Raises EncodingError when the message does not fit the version.
        """
        out: list[Any] = []
        self.write(out, version)
        try:
            return b"".join(out)
        except TypeError as error:
            raise EncodingError(f"{type(self).__name__} v{version}: {error}") from error

    def encode_parts(self, version: int) -> "list[Part]":
        """Return the message as parts: large values and file slices are not copied.

        Raises EncodingError when the message does not fit the version.
        """
        from barnabas.protocol.codec import gathered

        out: list[Any] = []
        self.write(out, version)
        return gathered(out)

    def write(self, out: list[Any], version: int) -> None:
        """Append the message's chunks to `out` without copying; frames add their own chunks."""
        writer = self._writers.get(version)
        if writer is None:
            from barnabas.protocol.codec import make_writer

            writer = self._writers[version] = make_writer(type(self), version)
        writer(self, out.append)


_MISSING: Final = object()


def default_value(owner: type[Struct], field: Field) -> Any:
    """Return a new default value of a field of `owner`."""
    if field.default == () and field.kind is Kind.ARRAY:
        return []
    if field.default == () and field.kind is Kind.STRUCT:
        return owner.STRUCTS[field.struct]()
    return field.default


def is_default(owner: Struct | type[Struct], field: Field, value: Any) -> bool:
    """True when `value` is the default of a field of `owner`."""
    if field.default == () and field.kind is Kind.STRUCT:
        if value is None:
            return False
        struct = owner.STRUCTS[field.struct]
        return not value._unknown and all(
            is_default(struct, inner, getattr(value, name)) for name, inner in struct.FIELDS.items()
        )
    if field.default == () and field.kind is Kind.ARRAY:
        return value is not None and not len(value)
    return bool(value == field.default) if field.default is not None else value is None


def make_constructor(cls: type[Struct]) -> Any:
    """Generate the keyword-only `__init__` of a struct."""
    names: dict[str, Any] = {"_missing": _MISSING}
    parameters: list[str] = []
    body = ["    self._unknown = None"]
    for name, field in cls.FIELDS.items():
        if field.default == ():
            factory = "[]" if field.kind is Kind.ARRAY else f"new_{field.struct}()"
            if field.struct and field.kind is Kind.STRUCT:
                names[f"new_{field.struct}"] = cls.STRUCTS[field.struct]
            parameters.append(f"{name}=_missing")
            body.append(f"    self.{name} = {factory} if {name} is _missing else {name}")
        else:
            names[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
            body.append(f"    self.{name} = {name}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(body)
    exec(source, names)
    constructor = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor
