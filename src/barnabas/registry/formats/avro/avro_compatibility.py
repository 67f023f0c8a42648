"""Check whether an Avro reader can read what a writer wrote.

The rules are those of the Avro specification, and the reasons, their order and their paths are
Java's. A path is a JSON pointer into the reader's schema, except below a union: there it names the
branch of the writer's union. Each pair of types is compared once; a pair that is being compared
counts as compatible, which makes recursive schemas work. When a pair occurs again, its reasons
are repeated with the paths of the first occurrence.
"""

from collections.abc import Iterable

from barnabas.registry.formats.avro.avro_types import (
    ArrayType,
    AvroType,
    EnumType,
    Field,
    FixedType,
    MapType,
    NamedType,
    RecordType,
    UnionType,
)
from barnabas.registry.formats.schema_format import Incompatibility, SchemaTooComplexError

# The last part and the path before it: extending one costs the same at any depth.
Path = tuple["Path", str] | None
Reasons = tuple[Incompatibility, ...]

# A step is a pair of types compared, or a reason passed on.
STEPS_MAX = 200_000
REASONS_MAX = 1_000

# Which writers a primitive reader accepts beside its own type.
_PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "bytes": {"string"},
    "string": {"bytes"},
}


def check_avro(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Return why data of the writer cannot be read, empty when it can.

    Raises SchemaTooComplexError when there are too many pairs of types to compare.
    """
    return list(_Check().compare(reader, writer, None))


class _Check:
    """One comparison of two schemas, with the pairs of types that it has seen."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], Reasons] = {}
        self._steps = 0

    def compare(self, reader: AvroType, writer: AvroType, path: Path) -> Reasons:
        pair = (id(reader), id(writer))
        found = self._seen.get(pair)
        if found is None:
            self._seen[pair] = ()
            found = self._seen[pair] = self._compared(reader, writer, path)[:REASONS_MAX]
        self._steps += 1 + len(found)
        if self._steps > STEPS_MAX:
            raise SchemaTooComplexError("too complex: too many pairs of types to compare")
        return found

    def _compared(self, reader: AvroType, writer: AvroType, path: Path) -> Reasons:
        if isinstance(writer, UnionType):
            if isinstance(reader, UnionType):
                return self._unions(reader, writer, path)
            return _joined(
                self.compare(reader, branch, (path, str(index)))
                for index, branch in enumerate(writer.branches)
            )
        if isinstance(reader, UnionType):
            return self._into_union(reader, writer, path)
        if isinstance(reader, ArrayType) and isinstance(writer, ArrayType):
            return self.compare(reader.items, writer.items, (path, "items"))
        if isinstance(reader, MapType) and isinstance(writer, MapType):
            return self.compare(reader.values, writer.values, (path, "values"))
        if isinstance(reader, RecordType) and isinstance(writer, RecordType):
            return _names(reader, writer, path) + self._records(reader, writer, path)
        if isinstance(reader, EnumType) and isinstance(writer, EnumType):
            return _names(reader, writer, path) + _symbols(reader, writer, path)
        if isinstance(reader, FixedType) and isinstance(writer, FixedType):
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        if reader.kind == writer.kind or writer.kind in _PROMOTIONS.get(reader.kind, ()):
            return ()
        return (_type_mismatch(reader, writer, path),)

    def _unions(self, reader: UnionType, writer: UnionType, path: Path) -> Reasons:
        return tuple(
            _missing_branch(reader, branch, (path, str(index)))
            for index, branch in enumerate(writer.branches)
            if self.compare(reader, branch, None)
        )

    def _into_union(self, reader: UnionType, writer: AvroType, path: Path) -> Reasons:
        if any(not self.compare(branch, writer, None) for branch in reader.branches):
            return ()
        return (_missing_branch(reader, writer, path),)

    def _records(self, reader: RecordType, writer: RecordType, path: Path) -> Reasons:
        return _joined(
            self._field(field, writer, ((path, "fields"), str(index)))
            for index, field in enumerate(reader.fields)
        )

    def _field(self, field: Field, writer: RecordType, path: Path) -> Reasons:
        names = (field.name, *field.aliases)
        written = [writer.by_name[name] for name in names if name in writer.by_name]
        if len(written) > 1:
            return (_ambiguous(field, written, path),)
        if written:
            return self.compare(field.type, written[0].type, (path, "type"))
        if field.has_default:
            return ()
        if isinstance(field.type, EnumType) and field.type.default is not None:
            # The default of the enum is not one of the field; Java compares it with the record.
            return self.compare(field.type, writer, (path, "type"))
        return (_missing_default(field, path),)


def _joined(parts: Iterable[Reasons]) -> Reasons:
    found: list[Incompatibility] = []
    for reasons in parts:
        found.extend(reasons)
        if len(found) > REASONS_MAX:
            break
    return tuple(found)


def _names(reader: NamedType, writer: NamedType, path: Path) -> Reasons:
    if reader.name.simple == writer.name.simple or writer.name.full in reader.alias_names:
        return ()
    return (
        Incompatibility(
            "NAME_MISMATCH",
            _pointer((path, "name")),
            reader.name.full,
            writer.name.full,
            f"the names differ: keep the name, or add {writer.name.full} to the reader's aliases",
        ),
    )


def _symbols(reader: EnumType, writer: EnumType, path: Path) -> Reasons:
    missing = sorted(set(writer.symbols) - set(reader.symbols))
    if not missing or reader.default is not None:
        return ()
    return (
        Incompatibility(
            "MISSING_ENUM_SYMBOLS",
            _pointer((path, "symbols")),
            list(reader.symbols),
            list(writer.symbols),
            f"the reader's enum lacks the symbols {', '.join(missing)}: keep them, "
            "or give the reader's enum a default",
        ),
    )


def _sizes(reader: FixedType, writer: FixedType, path: Path) -> Reasons:
    if reader.size == writer.size:
        return ()
    return (
        Incompatibility(
            "FIXED_SIZE_MISMATCH",
            _pointer((path, "size")),
            reader.size,
            writer.size,
            "the size of a fixed cannot change: add a new type instead",
        ),
    )


def _type_mismatch(reader: AvroType, writer: AvroType, path: Path) -> Incompatibility:
    return Incompatibility(
        "TYPE_MISMATCH",
        _pointer(path),
        reader.kind,
        writer.kind,
        f"{reader.kind} cannot read {writer.kind}: keep the type, promote it, or use a union",
    )


def _missing_branch(reader: UnionType, writer: AvroType, path: Path) -> Incompatibility:
    return Incompatibility(
        "MISSING_UNION_BRANCH",
        _pointer(path),
        [branch.branch_name for branch in reader.branches],
        writer.branch_name,
        f"no branch of the reader's union can read {writer.branch_name}: keep or add one that can",
    )


def _missing_default(field: Field, path: Path) -> Incompatibility:
    return Incompatibility(
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        _pointer(path),
        field.name,
        None,
        f"the reader's field {field.name} is not in the writer's schema and has no default: "
        "give it a default",
    )


def _ambiguous(field: Field, written: list[Field], path: Path) -> Incompatibility:
    names = [f.name for f in written]
    return Incompatibility(
        "READER_FIELD_AMBIGUOUS",
        _pointer(path),
        field.name,
        names,
        f"the name and the aliases of {field.name} match several fields of the writer: "
        f"{', '.join(names)}",
    )


def _pointer(path: Path) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        parts.append(part)
    return "/" + "/".join(reversed(parts))
