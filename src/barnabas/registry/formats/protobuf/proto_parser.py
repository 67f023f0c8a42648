"""Parse Protobuf text of proto2 and proto3 by recursive descent."""

import re
from collections.abc import Callable
from typing import Any, NoReturn

from barnabas.registry.formats.protobuf.proto_tokens import Token, place, tokens
from barnabas.registry.formats.protobuf.proto_types import (
    EDITIONS_REFUSED,
    FIELD_NUMBER_MAX,
    EnumConstant,
    EnumType,
    Extend,
    Extensions,
    Field,
    Group,
    Import,
    MapType,
    Message,
    Oneof,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)
from barnabas.registry.formats.schema_format import SchemaError, SchemaTooComplexError

NESTING_MAX = 64
_OCTAL = re.compile("[+-]?0[0-7]+")
_LABELS = ("optional", "required", "repeated")


def parse_proto(text: str) -> ProtoFile:
    """Return the tree of a text.

    Raises SchemaError with line and column when it is not valid.
    """
    return _Parser(text).file()


class _Parser:
    """One text and the place that has been reached in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens(text))
        self._index = 0
        self._depth = 0

    # -- tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _fail(self, wanted: str) -> NoReturn:
        token = self._token
        found = "the end" if token.kind == "end" else repr(token.text[:40])
        raise SchemaError(f"expected {wanted}, found {found}", place(self._text, token.position))

    def _next(self, kind: str, wanted: str) -> str:
        if self._token.kind != kind:
            self._fail(wanted)
        self._index += 1
        return self._tokens[self._index - 1].text

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind in ("symbol", "word")

    def _take(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._index += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._fail(repr(text))

    def _word(self, wanted: str = "a name") -> str:
        if self._token.text.startswith("-"):
            self._fail(wanted)
        return self._next("word", wanted)

    def _name(self) -> str:
        """Read a name with dots, perhaps one in front."""
        dotted = "." if self._take(".") else ""
        dotted += self._word()
        while self._take("."):
            dotted += f".{self._word()}"
        return dotted

    def _number(self) -> int:
        text = self._next("number", "a number")
        try:
            return int(text, 8 if _OCTAL.fullmatch(text) else 0)
        except ValueError:
            self._index -= 1
            self._fail("a whole number")

    def _string(self) -> str:
        parts = [self._next("string", "a string")]
        while self._token.kind == "string":
            parts.append(self._next("string", "a string"))
        return "".join(parts)

    def _body(self, read: Callable[[], None]) -> None:
        """Read a block in braces, one statement after the other."""
        self._expect("{")
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise SchemaTooComplexError(f"nested deeper than {NESTING_MAX} levels")
        while not self._take("}"):
            if self._token.kind == "end":
                self._fail("'}'")
            if not self._take(";"):
                read()
        self._depth -= 1

    # -- files

    def file(self) -> ProtoFile:
        """Read the whole text."""
        syntax = None
        parts = _Parts()
        package = ""
        while self._token.kind != "end":
            if self._take(";"):
                continue
            if self._take("syntax"):
                self._expect("=")
                syntax = self._string()
                if syntax not in ("proto2", "proto3"):
                    self._index -= 1
                    self._fail('"proto2" or "proto3"')
                self._expect(";")
            elif self._take("edition"):
                raise SchemaError(EDITIONS_REFUSED)
            elif self._take("package"):
                package = self._name()
                self._expect(";")
            elif self._take("import"):
                kind = "public" if self._take("public") else "weak" if self._take("weak") else ""
                parts.add("imports", Import(self._string(), kind))
                self._expect(";")
            elif self._take("option"):
                parts.add("options", self._option_statement())
            elif self._take("service"):
                parts.add("services", self._service())
            elif not self._type_declaration(parts):
                self._fail("a declaration")
        return ProtoFile(syntax, package, **parts.tuples())

    def _type_declaration(self, parts: "_Parts") -> bool:
        if self._take("message"):
            parts.add("messages", self._message())
        elif self._take("enum"):
            parts.add("enums", self._enum())
        elif self._take("extend"):
            parts.add("extends", self._extend())
        else:
            return False
        return True

    def _message(self) -> Message:
        name = self._word()
        parts = _Parts()

        def statement() -> None:
            if self._take("option"):
                parts.add("options", self._option_statement())
            elif self._take("oneof"):
                parts.add("oneofs", self._oneof())
            elif self._take("reserved"):
                parts.add("reserved", self._reserved())
            elif self._take("extensions"):
                parts.add("extensions", self._extensions())
            elif not self._type_declaration(parts):
                self._field_or_group(parts)

        self._body(statement)
        return Message(name, **parts.tuples())

    def _field_or_group(self, parts: "_Parts") -> None:
        label = ""
        if self._token.text in _LABELS:
            label = self._word()
        if self._take("group"):
            parts.add("groups", self._group(label))
        else:
            parts.add("fields", self._field(label))

    def _group(self, label: str) -> Group:
        name = self._word()
        self._expect("=")
        number = self._field_number()
        parts = _Parts()
        self._body(lambda: self._field_or_group(parts))
        return Group(label, name, number, **parts.tuples())

    def _field(self, label: str = "") -> Field:
        field_type: str | MapType
        following = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        if self._is("map") and following.text == "<":
            self._expect("map")
            self._expect("<")
            key = self._name()
            self._expect(",")
            field_type = MapType(key, self._name())
            self._expect(">")
        else:
            field_type = self._name()
        name = self._word()
        self._expect("=")
        number = self._field_number()
        options = self._options()
        self._expect(";")
        return Field(name, number, field_type, label, options)

    def _field_number(self) -> int:
        number = self._number()
        if not 0 < number <= FIELD_NUMBER_MAX:
            self._index -= 1
            self._fail(f"a field number from 1 to {FIELD_NUMBER_MAX}")
        return number

    def _oneof(self) -> Oneof:
        name = self._word()
        parts = _Parts()

        def statement() -> None:
            if self._take("option"):
                parts.add("options", self._option_statement())
            else:
                self._field_or_group(parts)

        self._body(statement)
        return Oneof(name, **{"fields": (), **parts.tuples()})

    def _extend(self) -> Extend:
        name = self._name()
        parts = _Parts()
        self._body(lambda: self._field_or_group(parts))
        return Extend(name, tuple(parts.tuples().get("fields", ())))

    def _enum(self) -> EnumType:
        name = self._word()
        parts = _Parts()

        def statement() -> None:
            if self._take("option"):
                parts.add("options", self._option_statement())
            elif self._take("reserved"):
                parts.add("reserved", self._reserved())
            else:
                constant = self._word()
                self._expect("=")
                number = self._number()
                parts.add("constants", EnumConstant(constant, number, self._options()))
                self._expect(";")

        self._body(statement)
        return EnumType(name, **parts.tuples())

    def _service(self) -> Service:
        name = self._word()
        parts = _Parts()

        def statement() -> None:
            if self._take("option"):
                parts.add("options", self._option_statement())
            else:
                self._expect("rpc")
                parts.add("rpcs", self._rpc())

        self._body(statement)
        return Service(name, **parts.tuples())

    def _rpc(self) -> Rpc:
        name = self._word()
        request_stream, request = self._rpc_type()
        self._expect("returns")
        response_stream, response = self._rpc_type()
        parts = _Parts()

        def statement() -> None:
            self._expect("option")
            parts.add("options", self._option_statement())

        if self._is("{"):
            self._body(statement)
        else:
            self._expect(";")
        return Rpc(name, request, response, request_stream, response_stream, **parts.tuples())

    def _rpc_type(self) -> tuple[bool, str]:
        self._expect("(")
        following = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        is_stream = self._is("stream") and (following.kind == "word" or following.text == ".")
        if is_stream:
            self._expect("stream")
        name = self._name()
        self._expect(")")
        return is_stream, name

    # -- ranges

    def _range(self) -> Range:
        first = self._number()
        if not self._take("to"):
            return Range(first, first)
        if self._take("max"):
            return Range(first, FIELD_NUMBER_MAX)
        return Range(first, self._number())

    def _reserved(self) -> Reserved:
        items: list[Range | str] = []
        while True:
            items.append(self._string() if self._token.kind == "string" else self._range())
            if not self._take(","):
                break
        self._expect(";")
        return Reserved(tuple(items))

    def _extensions(self) -> Extensions:
        ranges = [self._range()]
        while self._take(","):
            ranges.append(self._range())
        self._options()
        self._expect(";")
        return Extensions(tuple(ranges))

    # -- options

    def _option_statement(self) -> Option:
        option = self._option()
        self._expect(";")
        return option

    def _options(self) -> tuple[Option, ...]:
        if not self._take("["):
            return ()
        options = [self._option()]
        while self._take(","):
            options.append(self._option())
        self._expect("]")
        return tuple(options)

    def _option(self) -> Option:
        if self._take("("):
            name = f"({self._name()})"
            self._expect(")")
            while self._take("."):
                name += f".{self._option_part()}"
        else:
            name = self._name()
        self._expect("=")
        return Option(name, self._value())

    def _option_part(self) -> str:
        if self._take("("):
            name = f"({self._name()})"
            self._expect(")")
            return name
        return self._word()

    def _value(self) -> OptionValue:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise SchemaTooComplexError(f"nested deeper than {NESTING_MAX} levels")
        try:
            if self._token.kind == "string":
                return OptionValue("string", self._string())
            if self._is("{") or self._is("<"):
                return self._map_value()
            if self._take("["):
                items: list[OptionValue] = []
                while not self._take("]"):
                    items.append(self._value())
                    if not self._is("]"):
                        self._expect(",")
                return OptionValue("list", items=tuple(items))
            if self._token.kind == "number":
                return OptionValue("word", self._next("number", "a value"))
            return OptionValue("word", self._next("word", "a value"))
        finally:
            self._depth -= 1

    def _map_value(self) -> OptionValue:
        close = "}" if self._take("{") else ">"
        if close == ">":
            self._expect("<")
        entries: list[tuple[str, OptionValue]] = []
        while not self._take(close):
            if self._take("["):
                key = f"[{self._name()}]"
                self._expect("]")
            else:
                key = self._word()
            if not self._take(":") and not (self._is("{") or self._is("<")):
                self._fail("':'")
            entries.append((key, self._value()))
            if not self._take(","):
                self._take(";")
        return OptionValue("map", entries=tuple(entries))


class _Parts:
    """The contents of a block, by kind, in order."""

    def __init__(self) -> None:
        self._lists: dict[str, list[Any]] = {}

    def add(self, kind: str, item: Any) -> None:
        self._lists.setdefault(kind, []).append(item)

    def tuples(self) -> dict[str, Any]:
        return {kind: tuple(items) for kind, items in self._lists.items()}
