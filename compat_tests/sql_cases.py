"""Parse the cases of ksqlDB's query translation tests, and count those that parse.

The cases are ksqlDB's `query-validation-tests`, JSON files under its own licence, so a person names
the directory that has them:

    make sql-cases ARGS="--cases DIR"

A case that gives a list of formats counts once for each. A case that expects an error is counted
apart: the parser refuses some of these, and the others are for the planner to refuse.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError

if TYPE_CHECKING:
    from collections.abc import Iterator

# A string, which stays, or a comment, which JSON does not have.
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True)
class Case:
    """The statements of one case in one format, and whether ksqlDB refuses them."""

    name: str
    statements: tuple[str, ...]
    refused: bool


def cases_of(directory: Path) -> Iterator[Case]:
    """Read the cases of all files of the directory that are enabled."""
    for name, statements, test in enabled_cases(directory):
        yield Case(name, statements, "expectedException" in test)


def enabled_cases(directory: Path) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """Return the name, the statements and the JSON of each enabled case in each of its formats."""
    for path in sorted(directory.glob("*.json")):
        text = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", path.read_text())
        for test in json.loads(text)["tests"]:
            if test.get("enabled", True):
                yield from _expanded(path.stem, test)


def _expanded(
    file: str, test: dict[str, Any]
) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    for form in test.get("format", [""]):
        statements = tuple(each.replace("{FORMAT}", form) for each in test["statements"])
        yield f"{file}: {test['name']}{f' [{form}]' if form else ''}", statements, test


def refusal(case: Case) -> str | None:
    """Return the parser's error for the case, or None where all its statements parse."""
    variables: dict[str, str] = {}
    try:
        for statement in case.statements:
            list(parse_script(statement, variables))
    except SqlError as error:
        return str(error)
    return None


def main() -> None:
    """Print the counts, and each case with results that does not parse."""
    arguments = argparse.ArgumentParser(description="Parse ksqlDB's query translation tests.")
    arguments.add_argument("--cases", type=Path, required=True, metavar="DIR")
    counts: Counter[tuple[bool, bool]] = Counter()
    for case in cases_of(arguments.parse_args().cases):
        reason = refusal(case)
        counts[case.refused, reason is None] += 1
        if reason is not None and not case.refused:
            print(f"{case.name}: {reason}")
    print(f"cases with results: parsed {counts[False, True]}, refused {counts[False, False]}")
    print(f"cases with expected errors: refused {counts[True, False]}, parsed {counts[True, True]}")


if __name__ == "__main__":
    main()
