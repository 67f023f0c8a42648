"""The outcomes that are read from the output of foreign suites."""

import shutil
from pathlib import Path

import pytest

from compat_tests.clients import known_failures
from compat_tests.clients.outcomes import Outcome, Result, counts, failures, of_go, of_junit
from compat_tests.clients.three_nodes import logs_kept
from compat_tests.cluster.clusters import BarnabasCluster

GO = """\
=== RUN   TestRead
=== PAUSE TestRead
=== RUN   TestWrite
=== RUN   TestWrite/all
    write_test.go:3: refused
--- FAIL: TestWrite (1.25s)
    --- FAIL: TestWrite/all (1.20s)
=== CONT  TestRead
--- PASS: TestRead (0.01s)
--- SKIP: TestTls (0.00s)
FAIL
"""
JUNIT = """\
<testsuites><testsuite>
<testcase classname="tests.a" name="test_one" time="0.5"/>
<testcase classname="tests.a" name="test_two" time="0.1"><failure message="refused"/></testcase>
<testcase classname="tests.a" name="test_three"><skipped message="no TLS"/></testcase>
</testsuite></testsuites>
"""


def test_go_output_with_subtests_has_counts_and_reasons() -> None:
    outcomes = of_go(GO)
    assert counts(outcomes) == "1 / 1 / 1"
    assert failures(outcomes) == "TestWrite\nTestWrite/all: write_test.go:3: refused"


def test_junit_report_has_counts_and_reasons(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(JUNIT)
    outcomes = of_junit(report)
    assert counts(outcomes) == "1 / 1 / 1"
    assert failures(outcomes) == "tests.a.test_two: refused"


def test_failure_is_unexpected_unless_kafka_has_it_too() -> None:
    known = Outcome(next(iter(known_failures.KNOWN)), Result.FAILED, 1)
    new = Outcome("tests.new", Result.FAILED, 1)
    assert known_failures.unexpected([known, new]) == [new]


def test_whole_logs_of_nodes_outlive_a_failed_suite(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = BarnabasCluster()
    for node_id, node in cluster.processes.nodes.items():
        node.log += [f"line {number} of node {node_id}\n" for number in range(100)]
    with pytest.raises(AssertionError, match="refused"), logs_kept(cluster.logs):
        raise AssertionError("refused")
    cluster.close()
    directory = Path(capsys.readouterr().out.split()[-1])
    logs = {each.name: each.read_text().splitlines() for each in directory.iterdir()}
    shutil.rmtree(directory)
    assert sorted(logs) == ["node-1.log", "node-2.log", "node-3.log"]
    assert logs["node-2.log"] == [f"line {number} of node 2" for number in range(100)]
