"""Processes of a flow are killed and stopped: no record is lost, none comes twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.mirror_daemon import POINTS
from compat_tests.pipeline.mirror_kills import KilledFlow
from compat_tests.servers import KINDS, ServerProcess

pytestmark = [setup.needed, pytest.mark.timeout(300), pytest.mark.barnabas_only]

CYCLES = 20
WAYS = [("barnabas", "identical"), ("barnabas", "assigned"), ("kafka", "assigned")]


@pytest.fixture(params=WAYS, ids=["-".join(way) for way in WAYS])
def way(request: pytest.FixtureRequest) -> tuple[str, str]:
    found: tuple[str, str] = request.param
    return found


@pytest.fixture
def clusters(way: tuple[str, str]) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    if way[0] == "kafka" and (reason := jars.missing()):
        pytest.skip(reason)
    source, target = KINDS["barnabas"](), KINDS[way[0]]()
    try:
        source.start()
        target.start()
        yield source, target
    finally:
        source.close()
        target.close()


@setup.long
def test_killed_workers_and_jvms_lose_and_repeat_no_record(
    clusters: tuple[ServerProcess, ServerProcess], way: tuple[str, str], tmp_path: Path
) -> None:
    flow = KilledFlow(*clusters, tmp_path, way[1])
    for point in POINTS:
        flow.kill_worker_at(point)
    flow.kill_jvm_at("sent")
    flow.kill_jvm_at("produced")
    assert flow.check() > 0


@pytest.mark.parametrize("way", [("barnabas", "identical")], ids=["identical"], indirect=True)
def test_twenty_kills_and_pauses_lose_and_repeat_no_record(
    clusters: tuple[ServerProcess, ServerProcess], way: tuple[str, str], tmp_path: Path
) -> None:
    flow = KilledFlow(*clusters, tmp_path, way[1])
    cycles = flow.short_cycles()
    assert len(cycles) == CYCLES
    for cycle in cycles:
        cycle()
    assert flow.check() > 0
