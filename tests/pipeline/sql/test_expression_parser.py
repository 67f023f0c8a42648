"""Expressions as sqlglot's nodes, with ksqlDB's names and signs."""

import pytest
from sqlglot import expressions as exp

from barnabas.pipeline.sql.expression_parser import TypeName
from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError
from barnabas.pipeline.sql.sql_types import SqlType
from barnabas.pipeline.sql.statement_values import Select


def expression(text: str) -> exp.Expr:
    (statement,) = parse_script(f"SELECT {text} FROM s")
    assert isinstance(statement, Select)
    return statement.items[0].expression


def column(name: str, source: str | None = None) -> exp.Column:
    table = exp.Identifier(this=source, quoted=False) if source else None
    return exp.Column(this=exp.Identifier(this=name, quoted=False), table=table)


def test_names_are_upper_case_unless_back_quoted() -> None:
    assert expression("a") == column("A")
    assert expression("s.a") == column("A", "S")
    assert expression("1r") == column("1R")
    assert expression("`a b`") == exp.Column(this=exp.Identifier(this="a b", quoted=True))


def test_arrow_reads_a_field_of_a_struct() -> None:
    inner = exp.Dot(this=column("A"), expression=exp.Identifier(this="B", quoted=False))
    assert expression("a->b->*") == exp.Dot(this=inner, expression=exp.Star())
    assert expression("s.*") == exp.Column(
        this=exp.Star(), table=exp.Identifier(this="S", quoted=False)
    )


def test_lambdas_keep_their_parameters() -> None:
    call = expression("reduce(m, 0, (k, v) => k + v)")
    assert isinstance(call, exp.Anonymous)
    assert call.this == "REDUCE"
    function = call.expressions[2]
    assert isinstance(function, exp.Lambda)
    assert [each.name for each in function.expressions] == ["K", "V"]
    assert function.this == exp.Add(this=column("K"), expression=column("V"))


def test_constructors_have_names_and_values() -> None:
    (pair,) = expression("STRUCT(a := 1)").expressions
    assert pair == exp.PropertyEQ(
        this=exp.Identifier(this="A", quoted=False), expression=exp.Literal.number(1)
    )
    (pair,) = expression("MAP('k' := b)").expressions
    assert pair == exp.PropertyEQ(this=exp.Literal.string("k"), expression=column("B"))
    assert expression("ARRAY[1]") == exp.Array(expressions=[exp.Literal.number(1)])
    assert expression("a[1]") == exp.Bracket(this=column("A"), expressions=[exp.Literal.number(1)])


def test_every_call_is_left_to_our_table_of_functions() -> None:
    for text in ("count(*)", "substring(a, 1)", "left(a, 2)", "current_date()", "if(a, b)"):
        assert isinstance(expression(text), exp.Anonymous)


def test_cast_has_our_type() -> None:
    cast = expression("CAST(a AS ARRAY<DECIMAL(3, 1)>)")
    assert isinstance(cast, exp.Cast)
    decimal = SqlType("DECIMAL", numbers=(3, 1))
    assert isinstance(cast.to, TypeName)
    assert cast.to.this == SqlType("ARRAY", (decimal,))


def test_case_has_branches_and_a_default() -> None:
    simple = expression("CASE a WHEN 1 THEN 2 ELSE 3 END")
    assert simple == exp.Case(
        this=column("A"),
        ifs=[exp.If(this=exp.Literal.number(1), true=exp.Literal.number(2))],
        default=exp.Literal.number(3),
    )
    searched = expression("CASE WHEN a THEN 1 WHEN b THEN 2 END")
    assert isinstance(searched, exp.Case)
    assert searched.this is None
    assert len(searched.args["ifs"]) == 2


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("NOT a = b", "NOT (a = b)"),
        ("a - b - c", "(a - b) - c"),
        ("a + b > c", "(a + b) > c"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    def inner(each: exp.Expr) -> exp.Expr:
        return each.this if isinstance(each, exp.Paren) else each

    def flat(node: exp.Expr) -> exp.Expr:
        return node.transform(inner)

    assert flat(expression(text)) == flat(expression(same))


def test_predicates() -> None:
    kinds = {
        "a LIKE 'x%' ESCAPE '!'": exp.Escape,
        "a BETWEEN 1 AND 2": exp.Between,
        "a NOT BETWEEN 1 AND 2": exp.Not,
        "a IN (1, 2)": exp.In,
        "a IS NULL": exp.Is,
        "a IS DISTINCT FROM b": exp.NullSafeNEQ,
        "a <> b": exp.NEQ,
        "a || b": exp.DPipe,
    }
    for text, kind in kinds.items():
        assert isinstance(expression(text), kind), text


def test_distinct_in_a_call_is_refused() -> None:
    with pytest.raises(SqlError, match=r"line 1:14: A call has no DISTINCT; write COUNT_DISTINCT"):
        expression("count(distinct a)")


@pytest.mark.parametrize("text", ["a =", "a + ", "NOT", "a LIKE", "a BETWEEN 1 AND", "a * / 1"])
def test_operator_without_what_is_behind_it_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match=r"line 1:\d+: Expected an expression but found '(FROM|/)'"):
        expression(text)
