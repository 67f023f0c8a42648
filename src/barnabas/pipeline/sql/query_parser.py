"""Queries: SELECT with its joins, windows and clauses."""

from typing import Literal

from sqlglot import expressions as exp

from barnabas.pipeline.sql.expression_parser import ExpressionParser
from barnabas.pipeline.sql.sql_failures import nearest
from barnabas.pipeline.sql.sql_tokens import RESERVED, is_word, name_of
from barnabas.pipeline.sql.statement_values import (
    Duration,
    Join,
    Relation,
    Select,
    SelectItem,
    Window,
    Within,
)

_UNITS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
# A word that begins the clause after a source is not an alias.
_CLAUSES = RESERVED | {"PARTITION"}


class QueryParser(ExpressionParser):
    """Reads a query at the current token."""

    def query(self) -> Select:
        """Read a query from SELECT to its end."""
        self.expect("SELECT")
        items = self.several(self._item)
        self.expect("FROM")
        source = self._relation()
        joins = self._joins()
        window = self._window() if self.word("WINDOW") else None
        where = self.expression_here() if self.word("WHERE") else None
        group_by = self._grouping() if self.word("GROUP", "BY") else ()
        partition_by = self._grouping() if self.word("PARTITION", "BY") else ()
        having = self.expression_here() if self.word("HAVING") else None
        emit = self._emit() if self.word("EMIT") else None
        limit = self.whole_number("LIMIT") if self.word("LIMIT") else None
        return Select(
            items, source, joins, window, where, group_by, partition_by, having, emit, limit
        )

    def _item(self) -> SelectItem:
        if self.word("*"):
            return SelectItem(exp.Star())
        expression = self.expression_here()
        if self.word("AS"):
            return SelectItem(expression, self.name("an alias"))
        return SelectItem(expression, self._short_alias())

    def _short_alias(self) -> str | None:
        """Consume a name that stands for an alias without AS, if there is one."""
        token = self._curr
        if not token or not is_word(token) or name_of(token) in _CLAUSES:
            return None
        self._advance()
        return name_of(token)

    def _relation(self) -> Relation:
        place = self.place()
        source = self.name("a stream or table")
        alias = self.name("an alias") if self.word("AS") else self._short_alias()
        return Relation(source, alias or source, place)

    def _joins(self) -> tuple[Join, ...]:
        joins: list[Join] = []
        while kind := self._join_kind():
            relation = self._relation()
            within = self._within() if self.word("WITHIN") else None
            self.expect("ON")
            joins.append(Join(kind, relation, within, self.expression_here()))
        return tuple(joins)

    def _join_kind(self) -> Literal["INNER", "LEFT", "RIGHT", "FULL"] | None:
        kinds: tuple[Literal["LEFT", "RIGHT", "FULL"], ...] = ("LEFT", "RIGHT", "FULL")
        for kind in kinds:
            if self.word(kind):
                self.word("OUTER")
                self.expect("JOIN")
                return kind
        if self.word("INNER"):
            self.expect("JOIN")
            return "INNER"
        return "INNER" if self.word("JOIN") else None

    def _within(self) -> Within:
        if self.word("("):
            before = self.duration()
            self.expect(",")
            after = self.duration()
            self.expect(")")
        else:
            before = after = self.duration()
        return Within(before, after, self.duration() if self.word("GRACE", "PERIOD") else None)

    def duration(self) -> Duration:
        """Read a number and a unit of time."""
        number = self.whole_number("a length of time")
        unit = self._curr.text.upper() if self._curr else ""
        factor = _UNITS.get(unit.removesuffix("S"))
        if factor is None:
            hint = nearest(unit, [f"{each}S" for each in _UNITS])
            raise self.failure(f"Expected a unit of time such as SECONDS {self.found()}{hint}")
        self._advance()
        return Duration(number * factor)

    def _window(self) -> Window:
        if self._curr.text.upper() not in _WINDOWS and self._next.text.upper() in _WINDOWS:
            self.name("a window's name")
        if self.word("TUMBLING"):
            self.expect("(", "SIZE")
            return self._window_end("TUMBLING", self.duration(), None)
        if self.word("HOPPING"):
            self.expect("(", "SIZE")
            size = self.duration()
            self.expect(",", "ADVANCE", "BY")
            return self._window_end("HOPPING", size, self.duration())
        if self.word("SESSION"):
            self.expect("(")
            return self._window_end("SESSION", self.duration(), None)
        hint = nearest(self._curr.text, _WINDOWS)
        raise self.failure(f"Expected TUMBLING, HOPPING or SESSION {self.found()}{hint}")

    def _window_end(
        self,
        kind: Literal["TUMBLING", "HOPPING", "SESSION"],
        size: Duration,
        advance: Duration | None,
    ) -> Window:
        retention = self.duration() if self.word(",", "RETENTION") else None
        grace = self.duration() if self.word(",", "GRACE", "PERIOD") else None
        self.expect(")")
        return Window(kind, size, advance, retention, grace)

    def _grouping(self) -> tuple[exp.Expr, ...]:
        """Read expressions; one pair of brackets around all of them means nothing."""
        start = self._index
        if self.word("("):
            if self.word(")"):
                raise self.failure("Expected an expression between the brackets")
            found = self.several(self.expression_here)
            if len(found) > 1:
                self.expect(")")
                return found
            self._retreat(start)
        return self.several(self.expression_here)

    def _emit(self) -> Literal["CHANGES", "FINAL"]:
        if self.word("CHANGES"):
            return "CHANGES"
        self.expect("FINAL")
        return "FINAL"
