"""ksqlDB's query translation tests: parse their statements, or run them.

The cases are ksqlDB's `query-validation-tests`, JSON files under its own licence, so a person names
the directory that has them:

    make sql-cases ARGS="--cases DIR"
    make sql-cases ARGS="--cases DIR --run --sample 200 --seed 1"

A case that gives a list of formats counts once for each. A case that expects an error passes when
its statements are refused.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError
from compat_tests.sql_case_files import cases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compat_tests.sql_case_files import Case


def refusal(case: Case) -> str | None:
    """Return the parser's error for the case, or None where all its statements parse."""
    variables: dict[str, str] = {}
    try:
        for statement in case.statements:
            list(parse_script(statement, variables))
    except SqlError as error:
        return str(error)
    return None


def parse(cases: Sequence[Case]) -> None:
    """Print the counts, and each case with results that does not parse."""
    counts: Counter[tuple[bool, bool]] = Counter()
    for case in cases:
        reason = refusal(case)
        counts[case.refused, reason is None] += 1
        if reason is not None and not case.refused:
            print(f"{case.file}: {case.name}: {reason}")
    print(f"cases with results: parsed {counts[False, True]}, refused {counts[False, False]}")
    print(f"cases with expected errors: refused {counts[True, False]}, parsed {counts[True, True]}")


def run(cases: Sequence[Case], session: Any) -> None:
    """Run cases in one Spark session, and print each that fails, then a table of the files."""
    from compat_tests.sql_case_runs import failure_of

    counts: Counter[tuple[str, bool, bool]] = Counter()
    started = time.monotonic()
    for case in cases:
        reason = failure_of(session, case)
        counts[case.file, case.refused, reason is None] += 1
        if reason is not None:
            print(f"{case.file}: {case.name}: {reason}", flush=True)
    print(f"\n{'file':40} results  errors")
    for file in sorted({case.file for case in cases}):
        print(f"{file:40} {_share(counts, [file], False):>8} {_share(counts, [file], True):>8}")
    files = sorted({case.file for case in cases})
    print(f"cases with results: {_share(counts, files, False)} pass")
    print(f"cases with expected errors: {_share(counts, files, True)} are refused")
    print(f"{time.monotonic() - started:.0f} s")


def _share(counts: Counter[tuple[str, bool, bool]], files: list[str], refused: bool) -> str:
    passed = sum(counts[file, refused, True] for file in files)
    failed = sum(counts[file, refused, False] for file in files)
    return f"{passed}/{passed + failed}"


def main() -> None:
    """Parse the cases, or run them."""
    arguments = argparse.ArgumentParser(description="ksqlDB's query translation tests.")
    arguments.add_argument("--cases", type=Path, required=True, metavar="DIR")
    arguments.add_argument("--run", action="store_true", help="run the cases on Spark")
    arguments.add_argument("--sample", type=int, help="the number of cases to take")
    arguments.add_argument("--seed", type=int, default=1, help="of the sample")
    arguments.add_argument("--files", help="files to take, without .json, between commas")
    given = arguments.parse_args()
    cases = list(cases_of(given.cases))
    if given.files:
        cases = [case for case in cases if case.file in given.files.split(",")]
    if given.sample:
        cases = random.Random(given.seed).sample(cases, min(given.sample, len(cases)))
    if not given.run:
        parse(cases)
        return
    from compat_tests.sql_case_session import session_of_cases

    with session_of_cases() as session:
        run(cases, session)


if __name__ == "__main__":
    main()
