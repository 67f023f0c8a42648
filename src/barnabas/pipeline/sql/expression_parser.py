"""Expressions, types and names, on sqlglot's expression parser.

sqlglot's parser reads the operators. This module adds what ksqlDB writes otherwise: `->` for a
field of a struct, `:=` in STRUCT and MAP, `=>` for lambdas, types with `<` and `>`, names in upper
case. All function calls are `Anonymous`: the table of functions is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from sqlglot import expressions as exp
from sqlglot.expressions.core import Expression
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from barnabas.pipeline.sql.sql_failures import SqlError, position
from barnabas.pipeline.sql.sql_tokens import RESERVED, is_word, name_of
from barnabas.pipeline.sql.sql_types import SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.tokenizer_core import Token


T = TypeVar("T")


class TypeName(Expression):
    """The target type of a CAST; `this` is its `SqlType`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


def _field(parser: Parser, this: exp.Expr, name: exp.Expr) -> exp.Expr:
    return exp.Dot(this=this, expression=name.this if isinstance(name, exp.Column) else name)


class ExpressionParser(Parser):
    """Reads expressions, types and names at the current token."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[TokenType, type[exp.Expr]]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {}
    COLUMN_OPERATORS: ClassVar = {TokenType.DOT: None, TokenType.ARROW: _field}
    TEXT_MATCH_EXCLUDED_TOKENS: ClassVar = frozenset({TokenType.STRING, TokenType.IDENTIFIER})

    # What the grammar of statements uses

    def failure(self, message: str, token: Token | None = None) -> SqlError:
        """Return an error at the token, or at the current one, to be raised."""
        at = token or self._curr or None
        offset = at.start if at else len(self.sql)
        return SqlError(message, *position(self.sql, offset))

    def word(self, *texts: str) -> bool:
        """True when the next words are these, which are then consumed."""
        return self._match_text_seq(*texts)

    def expect(self, *texts: str) -> None:
        """Consume these words or signs, or fail."""
        for text in texts:
            if not self._match_text_seq(text):
                raise self.failure(f"Expected {text} {self.found()}")

    def found(self) -> str:
        """Return the text of the current token, for a message."""
        return f"but found {self._curr.text!r}" if self._curr else "at the end of the statement"

    def name(self, what: str) -> str:
        """Consume a name and return it as the catalog keeps it."""
        token = self._curr
        if not token or not is_word(token):
            raise self.failure(f"Expected {what} {self.found()}")
        if token.token_type is not TokenType.IDENTIFIER and token.text.upper() in RESERVED:
            raise self.failure(
                f"Expected {what}, but {token.text} is a reserved word: write `{token.text}`"
            )
        self._advance()
        return name_of(token)

    def place(self) -> tuple[int, int]:
        """Return the line and the column of the current token, both from 1."""
        return position(self.sql, self._curr.start if self._curr else len(self.sql))

    def string(self, what: str) -> str:
        """Consume a string in single quotes."""
        if self._curr.token_type is not TokenType.STRING:
            raise self.failure(f"Expected {what} in single quotes {self.found()}")
        self._advance()
        return self._prev.text

    def whole_number(self, what: str) -> int:
        """Consume a whole number that is not negative."""
        if self._curr.token_type is not TokenType.NUMBER or not self._curr.text.isdecimal():
            raise self.failure(f"Expected {what} as a whole number {self.found()}")
        self._advance()
        return int(self._prev.text)

    def several(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Read items between commas, at least one."""
        items = [item()]
        while self.word(","):
            items.append(item())
        return tuple(items)

    def expression_here(self) -> exp.Expr:
        """Read an expression, or fail."""
        found = self._parse_disjunction()
        if found is None:
            raise self.failure(f"Expected an expression {self.found()}")
        return found

    def type_here(self) -> SqlType:
        """Read a type."""
        name = self.name("a type")
        found = self._type_arguments(name)
        while self.word("ARRAY"):
            found = SqlType("ARRAY", (found,))
        return found

    def _type_arguments(self, name: str) -> SqlType:
        if name in ("ARRAY", "MAP") and self.word("<"):
            elements = self.several(self.type_here)
            self.expect(">")
            if len(elements) != (1 if name == "ARRAY" else 2):
                raise self.failure(
                    f"{name} takes {1 if name == 'ARRAY' else 2} types, not {len(elements)}"
                )
            return SqlType(name, elements)
        if name == "STRUCT":
            return SqlType(name, fields=self._struct_fields())
        if self.word("("):
            if self._curr.token_type is TokenType.NUMBER:
                numbers = self.several(lambda: self.whole_number("a precision or scale"))
            else:
                numbers = ()
                self.expect("STRING")
            self.expect(")")
            return SqlType(name, numbers=numbers)
        return SqlType(name)

    def _struct_fields(self) -> tuple[tuple[str, SqlType], ...]:
        if self._match(TokenType.NEQ):
            return ()
        self.expect("<")
        if self.word(">"):
            return ()
        fields = self.several(lambda: (self.name("a field"), self.type_here()))
        self.expect(">")
        return fields

    # What sqlglot's parser calls

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise sqlglot's complaint as ours, with line and column."""
        if message.startswith("Required keyword"):  # an operator without what is behind it
            message = "Expected an expression"
        raise self.failure(
            f"{message} {self.found()}" if message.startswith("Expect") else message, token
        )

    def _parse_type(
        self, parse_interval: bool = True, fallback_to_identifier: bool = False
    ) -> exp.Expr | None:
        return self._parse_column()

    def _parse_column_parts_fast(self) -> exp.Column | exp.Dot | None:
        return None  # sqlglot's shortcut for plain columns keeps the case of names

    def _parse_column_reference(self) -> exp.Expr | None:
        found = self._parse_field()
        return exp.Column(this=found) if isinstance(found, exp.Identifier) else found

    def _parse_field(
        self, any_token: bool = False, tokens: object = None, anonymous_func: bool = False
    ) -> exp.Expr | None:
        return self._parse_primary() or self._parse_function_call() or self._parse_id_var()

    def _parse_id_var(self, any_token: bool = True, tokens: object = None) -> exp.Expr | None:
        token = self._curr
        if not token or not is_word(token):
            return None
        quoted = token.token_type is TokenType.IDENTIFIER
        if not quoted and token.text.upper() in RESERVED:
            return None
        self._advance()
        return exp.Identifier(this=name_of(token), quoted=quoted).update_positions(token)

    def _parse_identifier(self) -> exp.Expr | None:
        return self._parse_id_var() if self._curr.token_type is TokenType.IDENTIFIER else None

    def _parse_paren(self) -> exp.Expr | None:
        if not self.word("("):
            return None
        inside = self.expression_here()
        self.expect(")")
        return exp.Paren(this=inside)

    def _parse_function_call(
        self,
        functions: object = None,
        anonymous: bool = False,
        optional_parens: bool = True,
        any_token: bool = False,
    ) -> exp.Expr | None:
        if self.word("CASE"):
            return self._case_here()
        token = self._curr
        if not token or not is_word(token):
            return None
        name = name_of(token)
        if name == "ARRAY" and self._next.token_type is TokenType.L_BRACKET:
            self._advance(2)
            return exp.Array(expressions=self._arguments("]"))
        if self._next.token_type is not TokenType.L_PAREN:
            return None
        if name in RESERVED and name not in ("CAST", "LEFT", "RIGHT"):
            return None
        self._advance(2)
        if name == "CAST":
            return self._cast_here()
        return exp.Anonymous(this=name, expressions=self._arguments(")")).update_positions(token)

    def _case_here(self) -> exp.Expr:
        subject = None if self._match_text_seq("WHEN", advance=False) else self.expression_here()
        branches: list[exp.Expr] = []
        while self.word("WHEN"):
            condition = self.expression_here()
            self.expect("THEN")
            branches.append(exp.If(this=condition, true=self.expression_here()))
        if not branches:
            raise self.failure(f"Expected WHEN {self.found()}")
        default = self.expression_here() if self.word("ELSE") else None
        self.expect("END")
        return exp.Case(this=subject, ifs=branches, default=default)

    def _cast_here(self) -> exp.Expr:
        value = self.expression_here()
        self.expect("AS")
        target = TypeName(this=self.type_here())
        self.expect(")")
        return exp.Cast(this=value, to=target)

    def _arguments(self, end: str) -> list[exp.Expr]:
        if self.word(end):
            return []
        arguments = list(self.several(self._argument))
        self.expect(end)
        return arguments

    def _argument(self) -> exp.Expr:
        if self.word("*"):
            return exp.Star()
        parameters = self._lambda_parameters()
        if parameters:
            return exp.Lambda(this=self.expression_here(), expressions=parameters)
        if self._curr and self._curr.token_type is TokenType.DISTINCT:
            raise self.failure("A call has no DISTINCT; write COUNT_DISTINCT(x) or COLLECT_SET(x)")
        value = self.expression_here()
        if self._match(TokenType.COLON_EQ):
            name = value.this if isinstance(value, exp.Column) else value
            return exp.PropertyEQ(this=name, expression=self.expression_here())
        return value

    def _lambda_parameters(self) -> list[exp.Identifier]:
        """Consume `x =>` or `(x, y) =>` and return the names, or nothing where no lambda starts."""
        start = self._index
        bracket = self.word("(")
        names: list[exp.Identifier] = []
        while self._curr and is_word(self._curr):
            names.append(exp.to_identifier(name_of(self._curr)))
            self._advance()
            if not (bracket and self.word(",")):
                break
        if names and (not bracket or self.word(")")) and self._match(TokenType.FARROW):
            return names
        self._retreat(start)
        return []
