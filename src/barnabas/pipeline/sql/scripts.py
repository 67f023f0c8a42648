"""Scripts: a text divided into statements, its variables replaced, each statement parsed.

A statement over 1 MB, or nested 500 deep or deeper than the parser reaches, is refused, and a
number of more than 1,000 characters, of which Python may not make an integer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from barnabas.pipeline.sql.sql_failures import SqlError, nearest, position
from barnabas.pipeline.sql.sql_tokens import Ksql
from barnabas.pipeline.sql.statement_parser import VARIABLE_NAME, StatementParser
from barnabas.pipeline.sql.statement_values import DefineVariable, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlglot.tokenizer_core import Token

MAXIMUM_BYTES = 1024 * 1024
MAXIMUM_DEPTH = 500
NUMBER_MAXIMUM = 1000

# A string, a quoted name, a comment, the end of a statement, or other text, in this order. A
# comment without an end has the rest of the script.
_PIECE = re.compile(
    r"'(?:[^']|'')*'|`[^`]*`|\"[^\"]*\"|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<lone>/\*.*|['`\"])"
    r"|;|[^'`\";/-]+|.",
    re.DOTALL,
)
_VARIABLE = re.compile(rf"\$(?P<escaped>\$\{{{VARIABLE_NAME}\}})|\$\{{(?P<name>{VARIABLE_NAME})\}}")
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.LT)
_CLOSED = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.GT)


@dataclass(frozen=True)
class StatementText:
    """One statement as it was written, without its semicolon, and where it starts in its script."""

    text: str
    line: int
    column: int


def statement_texts(script: str) -> Iterator[StatementText]:
    """Divide a script at the semicolons outside strings, names and comments."""
    start = end = 0
    empty = True
    for piece in _PIECE.finditer(script):
        text = piece.group()
        if empty and (text.isspace() or piece["comment"]):
            start = end = piece.end()
        elif text != ";":
            if empty:
                start += len(text) - len(text.lstrip())
            empty, end = False, piece.end()
        else:
            if not empty:
                yield StatementText(script[start:end], *position(script, start))
            start, empty = piece.end(), True
    if not empty:
        yield StatementText(script[start:end], *position(script, start))


def has_ended(script: str) -> bool:
    """True when the last statement of a script has its semicolon, or there is no statement."""
    ended = True
    for piece in _PIECE.finditer(script):
        if piece["lone"]:
            return False
        if not piece.group().isspace() and not piece["comment"]:
            ended = piece.group() == ";"
    return ended


def parse_script(script: str, variables: dict[str, str] | None = None) -> Iterator[Statement]:
    """Parse a script's statements in order; DEFINE and UNDEFINE change the given variables.

    Raises SqlError, with the line and column in the script, at the first statement that is wrong.
    """
    known = {} if variables is None else variables
    for each in statement_texts(script):
        statement = parse_statement(each, known)
        if isinstance(statement, DefineVariable):
            if statement.value is None:
                known.pop(statement.name, None)
            else:
                known[statement.name] = statement.value
        yield statement


def parse_statement(source: StatementText, variables: dict[str, str]) -> Statement:
    """Parse one statement, after its variables were replaced."""
    try:
        _check_size(source.text)
        return _parse(_replace_variables(source.text, variables))
    except SqlError as error:
        column = error.column + (source.column - 1 if error.line == 1 else 0)
        raise SqlError(error.message, error.line + source.line - 1, column) from None


def _check_size(text: str) -> None:
    size = len(text.encode())
    if size > MAXIMUM_BYTES:
        raise SqlError(
            f"A statement has at most {MAXIMUM_BYTES} bytes, and this one has {size}", 1, 1
        )


def _replace_variables(text: str, variables: dict[str, str]) -> str:
    """Return a text with the values of its variables; comments keep theirs, `$${x}` is `${x}`."""

    def replaced(piece: re.Match[str]) -> str:
        def value(match: re.Match[str]) -> str:
            if match["escaped"]:
                return match["escaped"]
            name = match["name"].upper()
            if name not in variables:
                message = f"The variable {name} is not defined{nearest(name, variables)}"
                raise SqlError(message, *position(text, piece.start() + match.start()))
            return variables[name]

        return piece.group() if piece["comment"] else _VARIABLE.sub(value, piece.group())

    found = _PIECE.sub(replaced, text)
    _check_size(found)
    return found


def _parse(text: str) -> Statement:
    dialect = Ksql()
    try:
        tokens = dialect.tokenize(text)
    except TokenError:
        lone = [each for each in _PIECE.finditer(text) if each["lone"]]
        at = position(text, lone[0].start()) if lone else (1, 1)
        raise SqlError("A string, a quoted name or a comment has no end", *at) from None
    _check_depth(text, tokens)
    _check_numbers(text, tokens)
    parser = StatementParser(dialect=dialect)
    try:
        return parser.parse_one(tokens, text)
    except RecursionError:
        raise SqlError("The statement is nested too deep; divide it into several", 1, 1) from None


def _check_depth(text: str, tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        if token.token_type in _OPEN:
            depth += 1
        elif token.token_type in _CLOSED:
            depth = max(depth - 1, 0)
        if depth >= MAXIMUM_DEPTH:
            message = (
                f"A statement is nested less than {MAXIMUM_DEPTH} deep, and this one is deeper"
            )
            raise SqlError(message, *position(text, token.start))


def _check_numbers(text: str, tokens: list[Token]) -> None:
    for token in tokens:
        length = len(token.text)
        if token.token_type is TokenType.NUMBER and length > NUMBER_MAXIMUM:
            message = f"A number has at most {NUMBER_MAXIMUM} characters, and this one has {length}"
            raise SqlError(message, *position(text, token.start))
