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


def test_variables_in_comments_are_left() -> None:
    script = "DROP TYPE a -- ${b}\n; DROP TYPE /* ${b} */ c; -- ${b}\nDROP TYPE ${d} -- ${b}"
    assert list(parse_script(script, {"D": "e"})) == [DropType("A"), DropType("C"), DropType("E")]
    message = failure("DROP TYPE -- ${b}\n  ${b}")
    assert message.startswith("line 2:3: The variable B is not defined")


def test_second_dollar_keeps_a_reference_as_it_is() -> None:
    script = "SET 'a' = '$${b} ${b} $$${c}';"
    assert list(parse_script(script, {"B": "1"})) == [SetProperty("a", "${b} 1 $${c}")]


@pytest.mark.parametrize("name", ["1x", "`x`", '"x"', "é", "'x'"])
def test_name_of_a_variable_is_one_that_can_be_referred_to(name: str) -> None:
    message = failure(f"DEFINE {name} = 'y'")
    assert message.startswith("line 1:8: Expected a variable but found ")
    assert failure(f"UNDEFINE {name}").startswith("line 1:10: Expected a variable but found ")


def test_name_of_a_variable_may_be_a_word_of_the_language() -> None:
    (_, statement) = parse_script("DEFINE Limit = 'x'; DROP TYPE ${limit}")
    assert statement == DropType("X")


@pytest.mark.parametrize("text", ["/* a; DROP TYPE b;", "DROP TYPE a /* ; DROP TYPE b;"])
def test_comment_without_an_end_has_the_rest_of_the_script(text: str) -> None:
    (statement,) = statement_texts(text)
    assert statement.text == text
    place = text.index("/*") + 1
    assert failure(text) == f"line 1:{place}: A string, a quoted name or a comment has no end"


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


@pytest.mark.parametrize(
    "text", ["SELECT {} FROM s", "SELECT * FROM s LIMIT {}", "CREATE STREAM t WITH (partitions={})"]
)
def test_number_that_python_cannot_read_is_refused(text: str) -> None:
    column = text.index("{") + 1
    message = "A number has at most 1000 characters, and this one has 5000"
    assert failure(text.format("9" * 5000)) == f"line 1:{column}: {message}"


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
