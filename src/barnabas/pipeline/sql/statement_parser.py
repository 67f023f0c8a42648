"""Statements: which words begin which, and what follows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, TypeVar

from sqlglot.tokenizer_core import TokenType

from barnabas.pipeline.sql import statement_values as st
from barnabas.pipeline.sql.query_parser import QueryParser
from barnabas.pipeline.sql.sql_failures import nearest
from barnabas.pipeline.sql.sql_tokens import is_word, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import expressions as exp
    from sqlglot.tokenizer_core import Token

_Value = TypeVar("_Value")
_SUBJECTS = (
    "STREAMS",
    "TABLES",
    "TOPICS",
    "QUERIES",
    "FUNCTIONS",
    "PROPERTIES",
    "TYPES",
    "VARIABLES",
    "CONNECTORS",
)
_ASSERTED = ("TOPIC", "SCHEMA")
_TIMEOUT_MS_MAX = 2**31 - 1
VARIABLE_NAME = r"[A-Za-z_][A-Za-z_0-9]*"
"""An expression of the names that `DEFINE` sets, and that `${name}` refers to."""


class StatementParser(QueryParser):
    """Reads one statement."""

    def parse_one(self, tokens: list[Token], text: str) -> st.Statement:
        """Parse the tokens of one statement, all of them."""
        self.reset()
        self.sql = text
        self._chunks = [tokens]
        self._advance_chunk()
        found = self.statement()
        if self._curr:
            raise self.failure(f"Expected the end of the statement {self.found()}")
        return found

    def statement(self) -> st.Statement:
        """Read the statement that begins here."""
        if self._curr.text.upper() == "SELECT":
            return self.query()
        begins: dict[str, Callable[[], st.Statement]] = {
            "CREATE": self._create,
            "INSERT": self._insert,
            "DROP": self._drop,
            "ALTER": self._alter,
            "PAUSE": lambda: self._control("PAUSE"),
            "RESUME": lambda: self._control("RESUME"),
            "TERMINATE": lambda: self._control("TERMINATE"),
            "SHOW": self._show,
            "LIST": self._show,
            "DESCRIBE": self._describe,
            "EXPLAIN": self._explain,
            "PRINT": self._print,
            "ASSERT": self._assert,
            **self._settings(),
        }
        for word, read in begins.items():
            if self.word(word):
                return read()
        hint = nearest(self._curr.text, ["SELECT", *begins])
        raise self.failure(f"Expected a statement {self.found()}{hint}")

    def _settings(self) -> dict[str, Callable[[], st.Statement]]:
        return {
            "SET": self._set,
            "UNSET": lambda: st.SetProperty(self.string("a property"), None),
            "DEFINE": self._define,
            "UNDEFINE": lambda: st.DefineVariable(self._variable(), None),
            "RUN": self._run_script,
        }

    def _create(self) -> st.Statement:
        replace = self.word("OR", "REPLACE")
        connector = None if replace else self._connector_kind()
        if connector is not None:
            return self._create_connector(connector)
        read_only = self.word("SOURCE")
        if self.word("TYPE"):
            absent, place = self.word("IF", "NOT", "EXISTS"), self.place()
            name = self.name("a type's name")
            self.expect("AS")
            return st.CreateType(name, self.type_here(), absent, place)
        kind = self._kind()
        absent, place = self.word("IF", "NOT", "EXISTS"), self.place()
        name = self.name("a name")
        columns = self._columns()
        properties = self._properties() if self.word("WITH") else {}
        query = None
        if not columns and not read_only and self.word("AS"):
            query = self.query()
        return st.CreateSource(
            kind, name, columns, properties, query, replace, absent, read_only, place
        )

    def _connector_kind(self) -> st.ConnectorKind | None:
        """Return the kind of the connector that is created; None for another statement."""
        if self.word("SOURCE", "CONNECTOR"):
            return "SOURCE"
        return "SINK" if self.word("SINK", "CONNECTOR") else None

    def _create_connector(self, kind: st.ConnectorKind) -> st.Statement:
        absent, place = self.word("IF", "NOT", "EXISTS"), self.place()
        name = self.name("a connector's name")
        self.expect("WITH")
        properties = self._pairs(self._connector_property)
        return st.CreateConnector(kind, name, properties, absent, place)

    def _connector_property(self) -> tuple[str, str | None]:
        name = self._property_name()
        self.expect("=")
        value = self._literal(name)
        if isinstance(value, bool):
            return name, str(value).lower()
        return name, None if value is None else str(value)

    def _kind(self) -> st.SourceKind:
        if self.word("STREAM"):
            return "STREAM"
        if self.word("TABLE"):
            return "TABLE"
        hint = nearest(self._curr.text, ("STREAM", "TABLE", "TYPE"))
        raise self.failure(f"Expected STREAM or TABLE {self.found()}{hint}")

    def _columns(self) -> tuple[st.Column, ...]:
        if not self.word("("):
            return ()
        columns = self.several(self._column)
        self.expect(")")
        return columns

    def _column(self) -> st.Column:
        name, kind = self.name("a column"), self.type_here()
        if self.word("PRIMARY", "KEY"):
            return st.Column(name, kind, "PRIMARY KEY")
        if self.word("KEY"):
            return st.Column(name, kind, "KEY")
        if self.word("HEADERS"):
            return st.Column(name, kind, "HEADERS")
        if self.word("HEADER", "("):
            header = self.string("a header's name")
            self.expect(")")
            return st.Column(name, kind, "HEADERS", header)
        return st.Column(name, kind)

    def _properties(self) -> st.Properties:
        return self._pairs(self._property)

    def _pairs(self, read: Callable[[], tuple[str, _Value]]) -> dict[str, _Value]:
        self.expect("(")
        pairs = self.several(read)
        self.expect(")")
        return dict(pairs)

    def _property_name(self) -> str:
        is_text = self._curr.token_type is TokenType.STRING
        return self.string("a property") if is_text else self.name("a property")

    def _property(self) -> tuple[str, str | int | float | bool | None]:
        name = self._property_name().upper()
        self.expect("=")
        return name, self._literal(name)

    def _literal(self, name: str) -> str | int | float | bool | None:
        words = {"TRUE": True, "FALSE": False, "NULL": None}
        for word, value in words.items():
            if self.word(word):
                return value
        if self._match(TokenType.STRING):
            return self._prev.text
        sign = -1 if self.word("-") else 1
        if not self._match(TokenType.NUMBER):
            raise self.failure(f"Expected a string, number or boolean for {name} {self.found()}")
        text = self._prev.text
        return sign * (int(text) if text.isdecimal() else float(text))

    def _insert(self) -> st.Statement:
        self.expect("INTO")
        place = self.place()
        target = self.name("a stream or table")
        properties = self._properties() if self.word("WITH") else {}
        columns: tuple[str, ...] = ()
        if not properties and self.word("("):
            columns = self.several(lambda: self.name("a column"))
            self.expect(")")
        if not properties and self.word("VALUES"):
            return st.InsertValues(target, columns, self._values(), place)
        if columns:
            raise self.failure(f"Expected VALUES {self.found()}")
        return st.InsertSelect(target, self.query(), properties, place)

    def _values(self) -> tuple[exp.Expr, ...]:
        self.expect("(")
        if self.word(")"):
            return ()
        values = self.several(self.expression_here)
        self.expect(")")
        return values

    def _drop(self) -> st.Statement:
        if self.word("TYPE"):
            present, place = self.word("IF", "EXISTS"), self.place()
            return st.DropType(self.name("a type"), present, place)
        if self.word("CONNECTOR"):
            present, place = self.word("IF", "EXISTS"), self.place()
            return st.DropConnector(self.name("a connector"), present, place)
        kind = self._kind()
        present, place = self.word("IF", "EXISTS"), self.place()
        name = self.name("a name")
        return st.DropSource(kind, name, present, self.word("DELETE", "TOPIC"), place)

    def _alter(self) -> st.Statement:
        kind, place = self._kind(), self.place()
        name = self.name("a name")
        return st.AddColumns(kind, name, self.several(self._added_column), place)

    def _added_column(self) -> st.Column:
        self.expect("ADD")
        self.word("COLUMN")
        return st.Column(self.name("a column"), self.type_here())

    def _control(self, action: Literal["PAUSE", "RESUME", "TERMINATE"]) -> st.Statement:
        place = self.place()
        return st.QueryControl(action, None if self.word("ALL") else self.name("a query"), place)

    def _show(self) -> st.Statement:
        connectors = self._show_connectors()
        if connectors is not None:
            return connectors
        everything = self.word("ALL")
        for subject in _SUBJECTS if not everything else ("TOPICS",):
            if self.word(subject):
                return st.Show(subject, self.word("EXTENDED"), everything)
        hint = nearest(self._curr.text, _SUBJECTS)
        raise self.failure(f"Expected one of {', '.join(_SUBJECTS)} {self.found()}{hint}")

    def _show_connectors(self) -> st.Statement | None:
        """Return SHOW of connectors or their plug-ins, None for other objects."""
        kinds: tuple[st.ConnectorKind, ...] = ("SOURCE", "SINK")
        for kind in kinds:
            if self.word(kind, "CONNECTORS"):
                return st.ShowConnectors(kind)
        if self.word("CONNECTORS"):
            return st.ShowConnectors()
        return st.ShowConnectorPlugins() if self.word("CONNECTOR", "PLUGINS") else None

    def _describe(self) -> st.Statement:
        if self._next and self.word("CONNECTOR"):
            return st.DescribeConnector(self.name("a connector"))
        subjects: tuple[Literal["STREAMS", "TABLES"], ...] = ("STREAMS", "TABLES")
        for subject in subjects:
            if self.word(subject):
                return st.Describe(subject, None, self.word("EXTENDED"))
        if self.word("FUNCTION"):
            return st.Describe("FUNCTION", self.name("a function"))
        return st.Describe("SOURCE", self.name("a stream or table"), self.word("EXTENDED"))

    def _explain(self) -> st.Statement:
        if self._next:
            return st.Explain(None, self.statement())
        return st.Explain(self.name("a query"), None)

    def _print(self) -> st.Statement:
        topic = self._resource("a topic")
        beginning = self.word("FROM", "BEGINNING")
        sampled = self.word("INTERVAL") or self.word("SAMPLE")
        interval = self.whole_number("INTERVAL") if sampled else None
        return st.PrintTopic(
            topic, beginning, interval, self.whole_number("LIMIT") if self.word("LIMIT") else None
        )

    def _resource(self, what: str) -> str:
        """Read a string, or a name as it is written."""
        token = self._curr
        if token.token_type is TokenType.STRING:
            self.string(what)
        else:
            self.name(what)
        if not token.text:
            raise self.failure(f"Expected {what}, and not an empty name", token)
        return token.text

    def _assert(self) -> st.Statement:
        exists = not self.word("NOT", "EXISTS")
        if self.word("TOPIC"):
            place, name = self.place(), self._resource("a topic")
            properties = self._properties() if self.word("WITH") else {}
            return st.AssertTopic(name, properties, self._timeout(), exists, place)
        if not self.word("SCHEMA"):
            hint = nearest(self._curr.text, _ASSERTED)
            raise self.failure(f"Expected TOPIC or SCHEMA {self.found()}{hint}")
        place = self.place()
        subject = self._resource("a subject") if self.word("SUBJECT") else None
        number = self.whole_number("a schema's ID") if self.word("ID") else None
        if subject is None and number is None:
            raise self.failure(f"Expected SUBJECT or ID {self.found()}")
        return st.AssertSchema(subject, number, self._timeout(), exists, place)

    def _timeout(self) -> st.Duration | None:
        if not self.word("TIMEOUT"):
            return None
        at = self._curr
        found = self.duration()
        if found.ms > _TIMEOUT_MS_MAX:
            raise self.failure(f"TIMEOUT is at most {_TIMEOUT_MS_MAX} MILLISECONDS", at)
        return found

    def _set(self) -> st.Statement:
        name = self.string("a property")
        self.expect("=")
        return st.SetProperty(name, self.string("a value"))

    def _define(self) -> st.Statement:
        name = self._variable()
        self.expect("=")
        return st.DefineVariable(name, self.string("a value"))

    def _variable(self) -> str:
        """Read the name of a variable as `${name}` has it: without quotes, in any case."""
        token = self._curr
        is_bare = token and is_word(token) and token.token_type is not TokenType.IDENTIFIER
        if not is_bare or not re.fullmatch(VARIABLE_NAME, token.text):
            raise self.failure(
                f"Expected a variable {self.found()}: its name has letters of ASCII, digits and _, "
                "begins with no digit, and is in no quotes"
            )
        self._advance()
        return name_of(token)

    def _run_script(self) -> st.Statement:
        self.expect("SCRIPT")
        return st.RunScript(self.string("a file's path"))
