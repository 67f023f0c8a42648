"""Structs and messages: classes made of declared fields, with a codec made on first use.

    Struct     a group of fields within a message; declared as a class inside the message
    Message    what stands on its own: decode, decode_from, encode, encode_parts

Both are plain slotted classes with a keyword-only constructor; its source, like that of the
decoders and encoders, is generated when it is first needed, so that importing costs little.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast, dataclass_transform

from barnabas.protocol.errors import EncodingError, ProtocolError
from barnabas.protocol.fields import NO_VERSIONS, Field, Kind, Versions

if TYPE_CHECKING:
    from barnabas.protocol.codec import Part, Reader, Writer

Buffer = bytes | bytearray | memoryview
"""What messages are decoded from."""


class _StructMeta(type):
    """Turns the declarations in a class body into slots, and notes them in `FIELDS`."""

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
    """What type checkers must not take for a declared field."""

    __slots__ = ("_unknown",)
    _unknown: dict[int, bytes] | None

    @property
    def unknown_tagged_fields(self) -> dict[int, bytes]:
        """Tagged fields that the decoded version does not declare, by tag; encoded again as is."""
        if self._unknown is None:
            self._unknown = {}
        return self._unknown


@dataclass_transform(kw_only_default=True)
class Struct(_Extensible, metaclass=_StructMeta):
    """A group of fields; compares by value, and shows in its repr what is not at its default."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    FIELDS: ClassVar[dict[str, Field]]
    STRUCTS: ClassVar[dict[str, "type[Struct]"]]
    """The structs of the whole message, by name."""
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
    """A request, a response, or a record: what is encoded on its own, in one of its versions."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    """The key of the api whose request or response this is, or -1."""
    RECORD_TYPE: ClassVar[int] = -1
    """The number that names a metadata, coordinator or remote-log record, or -1."""
    VERSIONS: ClassVar[Versions] = NO_VERSIONS
    FLEXIBLE: ClassVar[Versions] = NO_VERSIONS
    """The versions with compact lengths and tagged fields."""

    _readers: ClassVar[dict[int, "Reader"]]
    _writers: ClassVar[dict[int, "Writer"]]

    def __init_subclass__(
        cls,
        *,
        versions: str,
        flexible: str = "none",
        api_key: int = -1,
        record_type: int = -1,
    ) -> None:
        """Take what the class statement says of the whole message."""
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)
        cls.API_KEY = api_key
        cls.RECORD_TYPE = record_type
        cls._readers = {}
        cls._writers = {}

    @classmethod
    def decode(cls, data: Buffer, version: int) -> Self:
        """Read a message that fills `data`; ProtocolError when the bytes are not one."""
        reader: Any = cls._readers.get(version) or cls._new_reader(version)
        message, end = reader(data, 0)
        if end != len(data):
            raise ProtocolError(f"{len(data) - end} bytes follow a {cls.__name__} v{version}")
        return message

    @classmethod
    def decode_from(cls, data: Buffer, pos: int, version: int) -> tuple[Self, int]:
        """Read a message at `pos`; returns it and the position behind it.

        Raises ProtocolError when the bytes are no message of that version, ValueError when there
        is no such version. Records fields are views of `data`.
        """
        reader: Any = cls._readers.get(version) or cls._new_reader(version)
        return reader(data, pos)

    @classmethod
    def _new_reader(cls, version: int) -> "Reader":
        from barnabas.protocol.codec import make_reader

        reader = cls._readers[version] = make_reader(cls, version)
        return reader

    def encode(self, version: int) -> bytes:
        """The message's bytes; EncodingError when it does not fit the version."""
        out: list[Any] = []
        self.write(out, version)
        try:
            return b"".join(out)
        except TypeError as error:
            raise EncodingError(f"{type(self).__name__} v{version}: {error}") from error

    def encode_parts(self, version: int) -> "list[Part]":
        """As `encode`, but large values and file slices stay parts of their own, uncopied."""
        from barnabas.protocol.codec import gathered

        out: list[Any] = []
        self.write(out, version)
        return gathered(out)

    def write(self, out: list[Any], version: int) -> None:
        """Append the message's chunks to `out`, uncopied; for frames that add their own."""
        writer = self._writers.get(version)
        if writer is None:
            from barnabas.protocol.codec import make_writer

            writer = self._writers[version] = make_writer(type(self), version)
        writer(self, out.append)


_MISSING: Final = object()


def default_value(owner: type[Struct], field: Field) -> Any:
    """A new default value of a field of `owner`."""
    if field.default == () and field.kind is Kind.ARRAY:
        return []
    if field.default == () and field.kind is Kind.STRUCT:
        return owner.STRUCTS[field.struct]()
    return field.default


def is_default(owner: Struct | type[Struct], field: Field, value: Any) -> bool:
    """Whether `value` is what a field of `owner` holds when left out."""
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
