"""The outcomes of a foreign suite's tests, from the output of Go's test binaries and of pytest."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

_GO_RESULT = re.compile(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)$")
_GO_STEP = re.compile(r"^=== (?:RUN|PAUSE|CONT|NAME)\s+(\S+)$")
_GO_NAMES = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
_LOGGED_LINES = 20
_LINES_OF_A_CLIENT = 200
_JUNIT_NAMES = {"failure": "failed", "error": "failed", "skipped": "skipped"}


class Result(StrEnum):
    """The result of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Outcome:
    """The end of one test: its name in its suite, its result and duration, and why it failed."""

    name: str
    result: Result
    seconds: float
    text: str = ""


def of_go(output: str) -> list[Outcome]:
    """Return the outcomes in the output of `go test -v`, those of subtests too."""
    outcomes: list[Outcome] = []
    logged: dict[str, list[str]] = {}
    current = ""
    for line in output.splitlines():
        if found := _GO_RESULT.match(line):
            result, current, seconds = found.groups()
            text = "\n".join(logged.get(current, []))
            outcomes.append(Outcome(current, Result(_GO_NAMES[result]), float(seconds), text))
        elif found := _GO_STEP.match(line):
            current = found[1]
        elif len(lines := logged.setdefault(current, [])) < _LOGGED_LINES:
            lines.append(line.strip())
    return outcomes


def of_junit(report: Path) -> list[Outcome]:
    """Return the outcomes in a JUnit report of pytest."""
    cases = ElementTree.parse(report).iter("testcase")
    return [_of_case(case) for case in cases]


def _of_case(case: ElementTree.Element) -> Outcome:
    name = f"{case.get('classname', '')}.{case.get('name', '')}"
    seconds = float(case.get("time", "0"))
    for element in case:
        if result := _JUNIT_NAMES.get(element.tag):
            text = element.get("message") or element.text or ""
            if result == Result.FAILED:  # with what the client has logged
                log = (case.findtext("system-out") or "").splitlines()[-_LINES_OF_A_CLIENT:]
                text = "\n".join((text, *log))
            return Outcome(name, Result(result), seconds, text)
    return Outcome(name, Result.PASSED, seconds)


def counts(outcomes: Iterable[Outcome]) -> str:
    """Return "passed / failed / skipped" of the tests, not counting subtests of Go."""
    found = Counter(each.result for each in outcomes if "/" not in each.name)
    return " / ".join(str(found[each]) for each in Result)


def failures(outcomes: Iterable[Outcome]) -> str:
    """Return each failed test with its reason, one after another; empty without one."""
    failed = [each for each in outcomes if each.result is Result.FAILED]
    return "\n".join(f"{each.name}: {each.text}".rstrip(": ") for each in failed)
