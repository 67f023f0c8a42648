"""ksqlDB's words and signs, on sqlglot's tokenizer."""

from typing import ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

# Words that end an expression or an alias, so they name a column only between back-quotes.
_RESERVED_WORDS = """
    ALL AND AS BETWEEN BY CASE CAST CREATE DELETE DISTINCT DROP ELSE EMIT END ESCAPE EXISTS FROM
    FULL GROUP HAVING IN INNER INSERT INTO IS JOIN LEFT LIKE LIMIT NOT NULL ON OR OUTER RIGHT SELECT
    THEN TRUE FALSE VALUES WHEN WHERE WINDOW WITH WITHIN
"""
RESERVED = frozenset(_RESERVED_WORDS.split())

_KEYWORDS = {
    "||": TokenType.DPIPE,
    ">=": TokenType.GTE,
    "<=": TokenType.LTE,
    "<>": TokenType.NEQ,
    "!=": TokenType.NEQ,
    ":=": TokenType.COLON_EQ,
    "->": TokenType.ARROW,
    "=>": TokenType.FARROW,
    "AND": TokenType.AND,
    "OR": TokenType.OR,
    "NOT": TokenType.NOT,
    "IS": TokenType.IS,
    "IN": TokenType.IN,
    "LIKE": TokenType.LIKE,
    "ESCAPE": TokenType.ESCAPE,
    "BETWEEN": TokenType.BETWEEN,
    "NULL": TokenType.NULL,
    "TRUE": TokenType.TRUE,
    "FALSE": TokenType.FALSE,
    "DISTINCT": TokenType.DISTINCT,
    "FROM": TokenType.FROM,
    "SELECT": TokenType.SELECT,
}


class KsqlTokenizer(Tokenizer):
    """Back-quotes and double quotes are identifiers, quotes are strings; few words are keywords."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ["`", '"']
    QUOTES: ClassVar[list[str | tuple[str, str]]] = ["'"]
    KEYWORDS: ClassVar[dict[str, TokenType]] = _KEYWORDS
    COMMANDS: ClassVar[set[TokenType]] = set()
    NESTED_COMMENTS: ClassVar[bool] = False


class Ksql(Dialect):
    """ksqlDB's dialect, for sqlglot's tokenizer and parser."""

    IDENTIFIERS_CAN_START_WITH_DIGIT = True
    Tokenizer = KsqlTokenizer


def is_word(token: Token) -> bool:
    """True when the token may be a name or a word of the language."""
    return token.token_type is TokenType.IDENTIFIER or (
        token.token_type is not TokenType.STRING
        and token.token_type is not TokenType.NUMBER
        and token.text.replace("_", "a").isalnum()
    )


def name_of(token: Token) -> str:
    """Return the name that a word stands for: upper case, unless quoted."""
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.upper()
