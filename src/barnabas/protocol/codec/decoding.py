"""Generates readers.

Inside a reader, a position may pass the end of the data: slices are then short, `struct` and
indexing raise, counts exceed the remaining bytes, and the last line compares the position with the
size. So one check at the end covers every string and byte field.
"""

from collections.abc import Callable
from struct import unpack_from as _unpack_from
from typing import Any

from barnabas.protocol.codec import runtime
from barnabas.protocol.codec.layout import (
    FIXED_SIZES,
    Layout,
    WireField,
    element_size_min,
    has_records,
    layout_of,
    strings,
)
from barnabas.protocol.codec.source import SHORT_ARRAY, Source
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.fields import FIXED_CODES, Field, Kind
from barnabas.protocol.messages_base import Message, Struct
from barnabas.protocol.types import Uuid

Reader = Callable[[Any, int], tuple[Message, int]]

# Messages with more strings get shorter code: compiling inlined code would take longer than it
# saves.
_STRINGS_MAX = 10

_NAMES: dict[str, Any] = {
    "MALFORMED": runtime.MALFORMED,
    "ProtocolError": ProtocolError,
    "Uuid": Uuid,
    "bad_count": runtime.bad_count,
    "bad_length": runtime.bad_length,
    "bad_marker": runtime.bad_marker,
    "new": object.__new__,
    "new_bytes": bytes.__new__,
    "read_compact_count": runtime.read_compact_count,
    "read_compact_text": runtime.read_compact_text,
    "read_unknown": runtime.read_unknown,
    "read_varint": runtime.read_varint,
}


def make_reader(message: type[Message], version: int) -> Reader:
    """Compile the reader of one version of a message.

    Raises ValueError when the message has no such version.
    """
    layout = layout_of(message, version)
    what = f"{message.__name__} v{version}"
    source = _ReaderSource(dict(_NAMES), layout)
    source.names["what"] = what
    source.line("def read(data, pos):")
    source.indent += 1
    source.line("size = len(data)")
    if has_records(layout):
        source.line("view = memoryview(data)")
    source.line("try:")
    source.indent += 1
    source.body("message", layout)
    source.flush()
    source.indent -= 1
    source.line("except MALFORMED as error:")
    source.line("    raise ProtocolError(f'{what}: {error}') from error")
    source.line("if pos > size:")
    source.line("    raise ProtocolError(f'{what} is truncated by {pos - size} bytes')")
    source.line("return message, pos")
    source.finish()
    return source.compile("read", what)


class _ReaderSource(Source):
    """The source of a reader; it collects runs of fixed-width fields and reads each run with one
    call.
    """

    def __init__(self, names: dict[str, Any], layout: Layout) -> None:
        super().__init__(names, layout)
        self._large = layout.flexible and strings(layout) > _STRINGS_MAX
        self._run: list[tuple[str, str]] = []  # struct codes and their assignment targets
        self._after: list[str] = []  # conversions of the values
        self._functions: list[tuple[str, Layout]] = []  # tagged sections to write

    def finish(self) -> None:
        """Write the functions that the reader calls: for tagged sections and repeated structs."""
        written: set[str] = set()
        while self._functions or len(written) < len(self.requested):
            self.indent = 0
            if self._functions:
                self._tagged_function(*self._functions.pop())
                continue
            name = next(name for name in self.requested if name not in written)
            written.add(name)
            self._struct_function(name, self.requested[name])

    def _struct_function(self, name: str, layout: Layout) -> None:
        self.line(f"def {name}(data, pos, size):")
        self.indent += 1
        if has_records(layout):
            self.line("view = memoryview(data)")
        self.body("owner", layout)
        self.flush()
        self.line("return owner, pos")

    def flush(self) -> None:
        """Emit the read of the collected run."""
        if not self._run:
            return
        size = sum(FIXED_SIZES[code] for code, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        if [code for code, _ in self._run] == ["B"]:
            self.line(f"{targets} = data[pos]")
        else:
            unpack = self.unpacker("".join(code for code, _ in self._run))
            comma = "," if len(self._run) == 1 else ""
            self.line(f"{targets}{comma} = {unpack}(data, pos)")
        self.line(f"pos += {size}")
        for line in self._after:
            self.line(line)
        self._run.clear()
        self._after.clear()

    def struct(self, target: str, layout: Layout) -> None:
        """Read a struct into a new variable."""
        function = self.shared("read", layout)
        if function is None:
            self.body(target, layout)
        else:
            self.flush()
            self.line(f"{target}, pos = {function}(data, pos, size)")

    def body(self, target: str, layout: Layout) -> None:
        """Read a struct's fields inline."""
        self._new(target, layout.type)
        for field in (*layout.absent, *(tagged.field for tagged in layout.tagged)):
            self._default(target, layout.type, field)
        for field in layout.fields:
            self.field(f"{target}.{field.name}", field, layout)
        if layout.flexible:
            self._tagged_section(target, layout)

    def field(self, target: str, field: WireField, owner: Layout) -> None:
        """Read a field into an attribute."""
        what = f"{owner.type.__qualname__}.{field.name}"
        if field.kind in FIXED_CODES:
            self._fixed(target, field.kind)
        elif field.kind is Kind.STRUCT:
            self._struct_field(target, field, what)
        elif field.kind is Kind.ARRAY:
            self._array(target, field, what)
        else:
            self._sized(target, field.kind, field.compact, field.nullable, what)

    def _fixed(self, target: str, kind: Kind) -> None:
        if kind is Kind.UUID:
            raw = self.variable("raw")
            self._run.append(("16s", raw))
            self._after.append(f"{target} = new_bytes(Uuid, {raw})")
        else:
            self._run.append((FIXED_CODES[kind], target))

    def _length(self, code: str, compact: bool, most: int | None = None) -> str:
        """Read a length or count; a compact one stays one higher than its value, as on the wire.

        `most` limits a compact length; the width limits the others.
        """
        length = self.variable("n")
        self._run.append(("B" if compact else code, length))
        self.flush()
        if compact:
            self.line(f"if {length} > 127:")
            self.line(f"    {length}, pos = read_varint(data, pos - 1)")
            if most is not None:
                self.line(f"    if {length} > {most + 1}:")
                self.line(f"        bad_length({length} - 1, what)")
        return length

    def _unless_null(
        self,
        target: str,
        length: str,
        compact: bool,
        nullable: bool,
        what: str,
        *,
        empty: str | None = None,
    ) -> None:
        """Open the branch for a value with a length; handle null, negative and `empty`."""
        null, least, extra = (0, 1, " - 1") if compact else (-1, 0, "")
        if nullable:
            self.line(f"if {length} == {null}:")
            self.line(f"    {target} = None")
            if not compact:  # a varint is never negative
                self.line(f"elif {length} < {least}:")
                self.line(f"    bad_length({length}, {what!r})")
        else:
            self.line(f"if {length} < {least}:")
            self.line(f"    bad_length({length}{extra}, {what!r})")
        if empty is not None:
            self.line(f"elif {length} == {least}:")
            self.line(f"    {target} = {empty}")
        self.line("else:")

    def _sized(self, target: str, kind: Kind, compact: bool, nullable: bool, what: str) -> None:
        """Read a string, bytes or records."""
        if kind is Kind.STRING and self._large:
            self.flush()
            self.line(f"{target}, pos = read_compact_text(data, pos, {nullable}, {what!r})")
            return
        if kind is Kind.STRING:
            length = self._length("h", compact, runtime.STRING_MAX)
        else:
            length = self._length("i", compact)
        self._unless_null(target, length, compact, nullable, what)
        end = self.variable("end")
        self.line(f"    {end} = pos + {length}{' - 1' if compact else ''}")
        self.line(f"    {target} = {_slice(kind, f'pos:{end}')}")
        self.line(f"    pos = {end}")

    def _struct_field(self, target: str, field: WireField, what: str) -> None:
        if field.struct is None:
            raise TypeError(f"{what} has no struct")
        value = self.variable("s")
        if not field.nullable:
            self.flush()
            self.struct(value, field.struct)
            self.flush()
            self.line(f"{target} = {value}")
            return
        marker = self.variable("marker")
        null = 0 if field.field.varint_marker else -1
        self._run.append(("b", marker))
        self.flush()
        self.line(f"if {marker} == {null}:")
        self.line(f"    {target} = None")
        self.line(f"elif {marker} != 1:")
        self.line(f"    bad_marker({marker}, {what!r})")
        self.line("else:")
        self.indent += 1
        self.struct(value, field.struct)
        self.flush()
        self.line(f"{target} = {value}")
        self.indent -= 1

    def _array(self, target: str, field: WireField, what: str) -> None:
        least_size = element_size_min(field)
        if self._large:
            count = self.variable("n")
            self.flush()
            arguments = f"size, {least_size}, {field.nullable}, {what!r}"
            self.line(f"{count}, pos = read_compact_count(data, pos, {arguments})")
            if field.nullable:
                self.line(f"if {count} < 0:")
                self.line(f"    {target} = None")
                self.line("else:")
                self.indent += 1
            self._elements(target, field, count, what)
            if field.nullable:
                self.indent -= 1
            return
        count = self._length("i", field.compact)
        self._unless_null(target, count, field.compact, field.nullable, what, empty="[]")
        self.indent += 1
        if field.compact:
            self.line(f"{count} -= 1")
        needed = count if least_size == 1 else f"{count} * {least_size}"
        self.line(f"if {needed} > size - pos:")
        self.line(f"    bad_count({count}, size - pos, {what!r})")
        self._elements(target, field, count, what)
        self.indent -= 1

    def _elements(self, target: str, field: WireField, count: str, what: str) -> None:
        element = field.field.element
        if element in FIXED_CODES and element is not Kind.UUID:
            code = FIXED_CODES[element]
            self.names["unpack_from"] = _unpack_from
            read = f"{target} = list(unpack_from(f'>{{{count}}}{code}', data, pos))"
            if self._large:
                self.line(read)
            else:
                short = self.short_unpackers(code)
                self.line(f"if {count} < {SHORT_ARRAY}:")
                self.line(f"    {target} = list({short}[{count}](data, pos))")
                self.line("else:")
                self.line(f"    {read}")
            self.line(f"pos += {count} * {FIXED_SIZES[code]}")
            return
        items, item = self.variable("items"), self.variable("item")
        self.line(f"{items} = []")
        self.line(f"for _ in range({count}):")
        self.indent += 1
        if field.struct is not None:
            self.struct(item, field.struct)
        elif element is Kind.UUID:
            self._fixed(item, element)
        else:
            self._sized(item, Kind.STRING, field.compact, False, what)
        self.flush()
        self.line(f"{items}.append({item})")
        self.indent -= 1
        self.line(f"{target} = {items}")

    def _tagged_section(self, target: str, layout: Layout) -> None:
        count = self.variable("n")
        self._run.append(("B", count))
        self.flush()
        self.line(f"if {count}:")
        self.line(f"    if {count} > 127:")
        self.line(f"        {count}, pos = read_varint(data, pos - 1)")
        if layout.tagged:
            function = self.variable("read_tagged")
            self._functions.append((function, layout))
            self.line(f"    pos = {function}(data, pos, {count}, size, {target})")
        else:
            self.line(f"    pos = read_unknown(data, pos, {count}, {target})")

    def _tagged_function(self, name: str, layout: Layout) -> None:
        what = f"{layout.type.__qualname__} v{layout.version}"
        self.line(f"def {name}(data, pos, count, size, owner):")
        self.indent += 1
        self.line("if count * 2 > size - pos:")
        self.line("    bad_count(count, size - pos, 'a tagged section')")
        if has_records(layout._replace(fields=())):
            self.line("view = memoryview(data)")
        self.line("seen = {}")
        self.line("unknown = {}")
        self.line("for _ in range(count):")
        self.indent += 1
        self.line("tag, pos = read_varint(data, pos)")
        self.line("length, pos = read_varint(data, pos)")
        self.line("end = pos + length")
        self.line("if end > size:")
        self.line("    bad_length(length, f'tagged field {tag}')")
        self.line("if tag in seen:")
        self.line("    raise ProtocolError(f'tag {tag} occurs twice')")
        self.line("seen[tag] = True")
        for index, field in enumerate(layout.tagged):
            self.line(f"{'el' if index else ''}if tag == {field.field.tag}:")
            self.indent += 1
            self.field(f"owner.{field.name}", field, layout)
            self.flush()
            self.indent -= 1
        self.line("else:")
        self.line("    unknown[tag] = bytes(data[pos:end])")
        self.line("    pos = end")
        self.line("if pos != end:")
        self.line(f"    raise ProtocolError(f'tagged field {{tag}} of {what} has a wrong length')")
        self.indent -= 1
        self.line("if unknown:")
        self.line("    owner._unknown = unknown")
        self.line("return pos")

    def _new(self, target: str, struct: type[Struct]) -> None:
        self.line(f"{target} = new({self.bind('Type_', struct)})")
        self.line(f"{target}._unknown = None")

    def _default(self, target: str, owner: type[Struct], field: Field) -> None:
        """Set a field's default; a struct is built inline, since calling its class is slow."""
        value = repr(field.default)
        if field.default == () and field.kind is Kind.ARRAY:
            value = "[]"
        elif field.default == ():
            value, struct = self.variable("default"), owner.STRUCTS[field.struct]
            self._new(value, struct)
            for inner in struct.FIELDS.values():
                self._default(value, struct, inner)
        elif isinstance(field.default, Uuid):
            value = self.bind("default", field.default)
        self.line(f"{target}.{field.name} = {value}")


def _slice(kind: Kind, bounds: str) -> str:
    if kind is Kind.STRING:
        return f"str(data[{bounds}], 'utf-8')"
    if kind is Kind.BYTES:
        return f"bytes(data[{bounds}])"
    return f"view[{bounds}]"
