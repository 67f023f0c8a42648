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
import json
import random
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from barnabas.pipeline.sql.scripts import parse_script
from barnabas.pipeline.sql.sql_failures import SqlError
from compat_tests.sql_case_files import Case, cases_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from compat_tests.sql_case_session import CaseEngine

_AnyCase = TypeVar("_AnyCase", bound=Case)


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


def run(
    cases: Sequence[Case],
    checks: Sequence[Callable[[Case], str | None]],
    results: Path | None = None,
) -> None:
    """Run cases, print each that fails, then a table of the files.

    Each check has a thread, and returns why a case fails. `results` is a file of lines of JSON:
    cases that it has are not run again.
    """
    found = _known_results(results)
    rest = [case for case in cases if _name(case) not in found]
    started = time.monotonic()
    lock, waiting = threading.Lock(), iter(rest)

    def work(check: Callable[[Case], str | None]) -> None:
        while True:
            with lock:
                case = next(waiting, None)
            if case is None:
                return
            begun = time.monotonic()
            reason = check(case)
            took = round(time.monotonic() - begun, 2)
            with lock:
                found[_name(case)] = reason
                _report(case, reason, took, results)

    others = [threading.Thread(target=work, args=(each,)) for each in checks]
    for each in others:
        each.start()
    for each in others:
        each.join()
    _print_table(cases, found)
    print(f"{time.monotonic() - started:.0f} s for {len(rest)} cases")


def checks_of(engine: CaseEngine, threads: int) -> list[Callable[[Case], str | None]]:
    """Return a check for each thread, which runs a case in one driver of Spark."""
    from compat_tests.sql_case_runs import failure_of

    return [partial(failure_of, engine.separate()) for _ in range(threads)]


def _name(case: Case) -> str:
    return f"{case.file}: {case.name}"


def _known_results(results: Path | None) -> dict[str, str | None]:
    if results is None or not results.exists():
        return {}
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    return {row["case"]: row["reason"] for row in rows}


def _report(case: Case, reason: str | None, took_s: float, results: Path | None) -> None:
    if reason is not None:
        print(f"{_name(case)}: {reason}", flush=True)
    if results is not None:
        row = {"case": _name(case), "refused": case.refused, "reason": reason, "seconds": took_s}
        with results.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _print_table(cases: Sequence[Case], found: dict[str, str | None]) -> None:
    counts = Counter((case.file, case.refused, found[_name(case)] is None) for case in cases)
    print(f"\n{'file':40} results  errors")
    files = sorted({case.file for case in cases})
    for file in files:
        print(f"{file:40} {_share(counts, [file], False):>8} {_share(counts, [file], True):>8}")
    print(f"cases with results: {_share(counts, files, False)} pass")
    print(f"cases with expected errors: {_share(counts, files, True)} are refused")


def _share(counts: Counter[tuple[str, bool, bool]], files: list[str], refused: bool) -> str:
    passed = sum(counts[file, refused, True] for file in files)
    failed = sum(counts[file, refused, False] for file in files)
    return f"{passed}/{passed + failed}"


def case_arguments(description: str) -> argparse.ArgumentParser:
    """Return the arguments that choose cases."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--cases", type=Path, required=True, metavar="DIR")
    arguments.add_argument("--sample", type=int, help="the number of cases to take")
    arguments.add_argument("--seed", type=int, default=1, help="of the sample")
    arguments.add_argument("--results", type=Path, metavar="FILE", help="continue this run")
    arguments.add_argument("--only", default="", metavar="TEXT", help="cases with this in the name")
    arguments.add_argument("--files", help="files to take, without .json, between commas")
    return arguments


def chosen(cases: Iterable[_AnyCase], given: argparse.Namespace) -> list[_AnyCase]:
    """Return the cases that the arguments choose."""
    files = given.files.split(",") if given.files else None
    found = [case for case in cases if files is None or case.file in files]
    found = [case for case in found if given.only in case.name]
    if given.sample:
        return random.Random(given.seed).sample(found, min(given.sample, len(found)))
    return found


def main() -> None:
    """Parse the cases, or run them."""
    arguments = case_arguments("ksqlDB's query translation tests.")
    arguments.add_argument("--run", action="store_true", help="run the cases on Spark")
    arguments.add_argument("--threads", type=int, default=2, help="cases that run at a time")
    given = arguments.parse_args()
    cases = chosen(cases_of(given.cases), given)
    if not given.run:
        parse(cases)
        return
    from compat_tests.sql_case_session import engine_of_cases

    with engine_of_cases(given.threads) as engine:
        run(cases, checks_of(engine, given.threads), given.results)


if __name__ == "__main__":
    main()
