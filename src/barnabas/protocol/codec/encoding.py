"""Generates writers: functions that append a message's chunks of bytes.

A value that the version cannot hold, and a value of a wrong type, raise EncodingError.
"""

from collections.abc import Callable
from typing import Any

from barnabas.protocol.codec import runtime
from barnabas.protocol.codec.layout import Layout, WireField, layout_of
from barnabas.protocol.codec.source import SHORT_ARRAY, Source
from barnabas.protocol.errors import EncodingError
from barnabas.protocol.fields import FIXED_CODES, Field, Kind
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid

Writer = Callable[[Message, Callable[[Any], object]], None]

_NAMES: dict[str, Any] = {
    "EncodingError": EncodingError,
    "UNFIT": runtime.UNFIT,
    "VARINTS": runtime.VARINTS,
    "lacks": runtime.lacks,
    "too_long": runtime.too_long,
    "uuid_bytes": runtime.uuid_bytes,
    "varint": runtime.varint,
    "write_tagged": runtime.write_tagged,
}

_NULLS = {"h": b"\xff\xff", "i": b"\xff\xff\xff\xff"}


def make_writer(message: type[Message], version: int) -> Writer:
    """Compile the writer of one version of a message.

    Raises ValueError when the message has no such version.
    """
    layout = layout_of(message, version)
    what = f"{message.__name__} v{version}"
    source = _WriterSource(dict(_NAMES), layout)
    source.names["what"] = what
    source.line("def write(message, append):")
    source.indent += 1
    source.line("try:")
    source.indent += 1
    source.body("message", layout)
    source.flush()
    source.line("pass")
    source.indent -= 1
    source.line("except EncodingError:")
    source.line("    raise")
    source.line("except UNFIT as error:")
    source.line("    raise EncodingError(f'{what}: {error}') from error")
    source.finish()
    return source.compile("write", what)


class _WriterSource(Source):
    """The source of a writer; it collects runs of fixed-width values and packs each run with one
    call.
    """

    def __init__(self, names: dict[str, Any], layout: Layout) -> None:
        super().__init__(names, layout)
        self._run: list[tuple[str, str]] = []  # struct codes and the packed expressions
        self._append = "append"

    def flush(self) -> None:
        """Emit the write of the collected run."""
        if self._run:
            self.line(f"{self._append}({self._packed()})")
            self._run.clear()

    def _packed(self, extra: tuple[str, str] | None = None) -> str:
        run = [*self._run, extra] if extra else self._run
        pack = self.packer("".join(code for code, _ in run))
        return f"{pack}({', '.join(value for _, value in run)})"

    def finish(self) -> None:
        """Write the functions of repeated structs; they may request more functions."""
        written = 0
        while written < len(self.requested):
            name = list(self.requested)[written]
            written += 1
            self.indent = 0
            self.line(f"def {name}(owner, append):")
            self.indent = 1
            self.body("owner", self.requested[name])
            self.flush()

    def struct(self, owner: str, layout: Layout) -> None:
        """Write the struct in the variable `owner`."""
        function = self.shared("write", layout)
        if function is None:
            self.body(owner, layout)
        else:
            self.flush()
            self.line(f"{function}({owner}, {self._append})")

    def body(self, owner: str, layout: Layout) -> None:
        """Write a struct's fields inline."""
        for field in layout.absent:
            if not field.ignorable:
                what = f"{layout.type.__qualname__}.{field.name}"
                self.line(f"if {self._differs(f'{owner}.{field.name}', field, layout.type)}:")
                self.line(f"    lacks({layout.version}, {what!r})")
        for field in layout.fields:
            self.field(f"{owner}.{field.name}", field)
        if layout.flexible:
            self._tagged_section(owner, layout)
        else:
            self.line(f"if {owner}._unknown:")
            self.line(f"    lacks({layout.version}, 'tagged fields')")

    def field(self, value: str, field: WireField) -> None:
        """Write a field from an attribute."""
        if field.kind in FIXED_CODES:
            self._fixed(value, field.kind)
        elif field.kind is Kind.STRUCT:
            self._struct_field(value, field)
        elif field.kind is Kind.ARRAY:
            self._array(value, field)
        else:
            self._sized(value, field.kind, field.compact, field.nullable)

    def _fixed(self, value: str, kind: Kind) -> None:
        if kind is Kind.UUID:
            value = f"uuid_bytes({value})"
        self._run.append((FIXED_CODES[kind], value))

    def _length(self, code: str, compact: bool, length: str) -> None:
        """Write a length or count together with the run before it."""
        if not compact:
            self._run.append((code, length))
            self.flush()
            return
        size = self.variable("n")
        self.line(f"{size} = {length} + 1")
        if not self._run:
            self.line(f"{self._append}(VARINTS[{size}] if {size} < 128 else varint({size}))")
            return
        self.line(f"if {size} < 128:")
        self.line(f"    {self._append}({self._packed(('B', size))})")
        self.line("else:")
        self.line(f"    {self._append}({self._packed()})")
        self.line(f"    {self._append}(varint({size}))")
        self._run.clear()

    def _null(self, code: str, compact: bool) -> None:
        if compact:
            self.line(f"{self._append}(b'\\0')")
        else:
            self.line(f"{self._append}({_NULLS[code]!r})")

    def _nullable(self, value: str, code: str, compact: bool, nullable: bool) -> None:
        """Open the branch in which the value is present, if it is optional."""
        if nullable:
            self.flush()
            self.line(f"if {value} is None:")
            self.indent += 1
            self._null(code, compact)
            self.indent -= 1
            self.line("else:")
            self.indent += 1

    def _sized(self, value: str, kind: Kind, compact: bool, nullable: bool) -> None:
        """Write a string, bytes or records."""
        held, code = self.variable("v"), "h" if kind is Kind.STRING else "i"
        self.line(f"{held} = {value}")
        self._nullable(held, code, compact, nullable)
        if kind is Kind.STRING:
            self.line(f"{held} = {held}.encode()")
            if compact:
                self.line(f"if len({held}) > 32767:")
                self.line(f"    too_long(len({held}), {value!r})")
        self._length(code, compact, f"len({held})")
        self.line(f"{self._append}({held})")
        if nullable:
            self.indent -= 1

    def _struct_field(self, value: str, field: WireField) -> None:
        if field.struct is None:
            raise TypeError(f"{value} has no struct")
        held = self.variable("v")
        self.line(f"{held} = {value}")
        if field.nullable:
            null, present = (0, 1) if field.field.varint_marker else (-1, 1)
            self.flush()
            self.line(f"if {held} is None:")
            self.line(f"    {self._append}({(null & 0xFF).to_bytes(1, 'big')!r})")
            self.line("else:")
            self.indent += 1
            self._run.append(("b", str(present)))
        self.struct(held, field.struct)
        if field.nullable:
            self.flush()
            self.indent -= 1

    def _array(self, value: str, field: WireField) -> None:
        held = self.variable("v")
        self.line(f"{held} = {value}")
        self._nullable(held, "i", field.compact, field.nullable)
        element = field.field.element
        if element in FIXED_CODES and element is not Kind.UUID:
            self._number_array(held, FIXED_CODES[element], field.compact)
        else:
            self._length("i", field.compact, f"len({held})")
            item = self.variable("item")
            self.line(f"for {item} in {held}:")
            self.indent += 1
            if field.struct is not None:
                self.struct(item, field.struct)
            elif element is Kind.UUID:
                self._fixed(item, element)
            else:
                self._sized(item, Kind.STRING, field.compact, False)
            self.flush()
            self.line("pass")
            self.indent -= 1
        if field.nullable:
            self.indent -= 1

    def _number_array(self, held: str, code: str, compact: bool) -> None:
        """Write an array of numbers; a short array is packed together with its count."""
        self.flush()
        self.names["pack"] = runtime.pack
        count = self.variable("n")
        short = self.short_packers("B" if compact else "i", code)
        self.line(f"{count} = len({held})")
        self.line(f"if {count} < {SHORT_ARRAY}:")
        first = f"{count} + 1" if compact else count
        self.line(f"    {self._append}({short}[{count}]({first}, *{held}))")
        self.line("else:")
        self.indent += 1
        self._length("i", compact, count)
        self.line(f"{self._append}(pack(f'>{{{count}}}{code}', *{held}))")
        self.indent -= 1

    def _tagged_section(self, owner: str, layout: Layout) -> None:
        self.flush()
        if not layout.tagged:
            self.line(f"if {owner}._unknown:")
            self.line(f"    write_tagged({self._append}, [*{owner}._unknown.items()])")
            self.line("else:")
            self.line(f"    {self._append}(b'\\0')")
            return
        section = self.variable("section")
        self.line(f"{section} = []")
        for field in layout.tagged:
            self._tagged_field(section, f"{owner}.{field.name}", field, layout)
        self.line(f"if {owner}._unknown:")
        self.line(f"    {section} += {owner}._unknown.items()")
        self.line(f"if {section}:")
        self.line(f"    write_tagged({self._append}, {section})")
        self.line("else:")
        self.line(f"    {self._append}(b'\\0')")

    def _tagged_field(self, section: str, value: str, field: WireField, owner: Layout) -> None:
        self.line(f"if {self._differs(value, field.field, owner.type)}:")
        self.indent += 1
        outer, chunks = self._append, self.variable("chunks")
        self.line(f"{chunks} = []")
        self._append = f"{chunks}.append"
        self.field(value, field)
        self.flush()
        self._append = outer
        self.line(f"{section}.append(({field.field.tag}, b''.join({chunks})))")
        self.indent -= 1

    def _differs(self, value: str, field: Field, owner: type[Struct]) -> str:
        """Return an expression that is true when a value is not the field's default."""
        if field.default == ():
            if field.kind is Kind.ARRAY:
                return f"{value} is None or len({value})"
            struct = owner.STRUCTS[field.struct]
            inner = [
                f"({self._differs(f'{value}.{name}', each, struct)})"
                for name, each in struct.FIELDS.items()
            ]
            return " or ".join([f"{value} is None", *inner, f"{value}._unknown"])
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.default, Uuid):
            return f"{value} != {self.bind('default', field.default)}"
        return f"{value} != {field.default!r}"
