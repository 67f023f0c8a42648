"""Scripts: statements, variables and limits."""

import string
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some

from barnabas.pipeline.sql.scripts import MAXIMUM_BYTES, parse_script, statement_texts
from barnabas.pipeline.sql.sql_failures import SqlError
from barnabas.pipeline.sql.statement_values import DropType, SetProperty


def failure(script: str, variables: dict[str, str] | None = None) -> str:
    with pytest.raises(SqlError) as raised:
        list(parse_script(script, variables))
    return str(raised.value)


def test_semicolons_in_strings_names_and_comments_end_nothing() -> None:
    script = (
        "SET 'a;' = 'it''s;'; -- one; two\n/* ; */ DROP TYPE `x;y`;;\n  ;DROP TYPE -- ;\n z;"
        ' DROP TYPE "a;\'b"'
    )
    assert list(parse_script(script)) == [
        SetProperty("a;", "it's;"),
        DropType("x;y"),
        DropType("Z"),
        DropType("a;'b"),
    ]


@pytest.mark.parametrize("quote", ["`", '"'])
def test_quoted_name_keeps_its_case_and_has_its_quote_twice(quote: str) -> None:
    (statement,) = parse_script(f"DROP TYPE {quote}Fish{quote}{quote}Id{quote}")
    assert statement == DropType(f"Fish{quote}Id")
    assert failure(f"DROP TYPE {quote}a;") == (
        "line 1:11: A string, a quoted name or a comment has no end"
    )


def test_places_are_those_in_the_script() -> None:
    assert failure("DROP TYPE a;\n  DROP TIPE b").startswith("line 2:8: ")
    assert failure("DROP TYPE a; DROP\nTIPE b").startswith("line 2:1: ")


def test_variables_are_replaced_in_the_text() -> None:
    known = {"A": "one"}
    script = "DEFINE b = '${a}_2'; SET '${b}' = '${A}'; DROP TYPE ${b}; UNDEFINE b;"
    statements = list(parse_script(script, known))
    assert statements[1:3] == [SetProperty("one_2", "one"), DropType("ONE_2")]
    assert known == {"A": "one"}


def test_missing_variable_is_named_with_the_nearest() -> None:
    message = failure("DROP TYPE ${topc}", {"TOPIC": "x"})
    assert message == "line 1:11: The variable TOPC is not defined; did you mean TOPIC?"


def test_large_statement_is_refused() -> None:
    text = "SET 'a' = '" + "x" * MAXIMUM_BYTES + "'"
    assert failure(text) == (
        f"line 1:1: A statement has at most {MAXIMUM_BYTES} bytes, and this one has {len(text)}"
    )
    grown = failure("SET 'a' = '${v}${v}'", {"V": "x" * (MAXIMUM_BYTES // 2)})
    assert "at most" in grown


def test_deep_statement_is_refused() -> None:
    deep = failure("SELECT " + "(" * 500 + "1" + ")" * 500 + " FROM s")
    assert deep == "line 1:507: A statement is nested less than 500 deep, and this one is deeper"
    for text in ("(" * 499 + "1" + ")" * 499, "NOT " * 5000 + "a", "-" + " -" * 5000 + "a"):
        assert "nested too deep" in failure(f"SELECT {text} FROM s")
    list(parse_script("SELECT " + "(" * 30 + "1" + ")" * 30 + " FROM s"))


_WORDS = """
    SELECT a ( ) -> := => FROM s 'x' 1 , * CASE [ ] < . CREATE STREAM WINDOW AS JOIN NOT IN IS
"""


def first_error(text: str) -> SqlError | None:
    try:
        list(parse_script(text))
    except SqlError as error:
        return error
    return None


@given(some.text(string.printable, max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    error = first_error(text)
    assert error is None or (1 <= error.line <= text.count("\n") + 1 and error.column >= 1)


@given(some.lists(some.sampled_from(_WORDS.split()), max_size=14))
def test_any_words_are_parsed_or_refused(words: list[str]) -> None:
    error = first_error("SELECT " + " ".join(words))
    assert error is None or error.line == 1


@given(some.lists(some.from_regex(r"[a-z '`\"\n-]{0,10}", fullmatch=True), max_size=5))
def test_text_is_at_its_line_and_column(pieces: list[str]) -> None:
    script = ";".join(pieces)
    lines = script.split("\n")
    for each in statement_texts(script):
        first = each.text.split("\n")[0]
        assert lines[each.line - 1][each.column - 1 :].startswith(first)


@pytest.mark.parametrize("module", ["barnabas.cli.main", "barnabas.pipeline.runner.runner_process"])
def test_start_without_sql_imports_none_of_it(module: str) -> None:
    check = (
        f"import sys, {module}; print([n for n in sys.modules if 'sqlglot' in n or '.sql' in n])"
    )
    out = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert out.stdout == "[]\n"
