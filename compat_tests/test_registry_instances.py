"""Registry processes that are killed: alone between append and answer, and three under load."""

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing.eventually import wait_until
from compat_tests.registry_instances import (
    RegistryInstance,
    check,
    instances,
    request,
    run_with_kills,
    schema_text,
)

pytest.importorskip("starlette")
pytest.importorskip("hypercorn")

# Without the removal by a follower it takes the session timeout, 6 s.
REPLACED_S = 5.0
# A busy machine may delay one round for seconds.
ROUNDS = 3


@pytest.fixture
def alone(bootstrap: str, tmp_path: Path) -> Iterator[RegistryInstance]:
    name = f"_schemas_{random.randrange(1 << 40)}"
    instance = RegistryInstance(bootstrap, tmp_path, "--topic", name, "--group", name)
    instance.start()
    instance.wait_ready()
    yield instance
    instance.stop()


def test_registration_repeated_after_a_kill_gets_the_same_id(alone: RegistryInstance) -> None:
    path = "/subjects/s/versions"
    status, first = request(alone.port, "POST", path, {"schema": schema_text("first")})
    assert status == 200
    chance = random.Random(1)
    for number in range(6):
        body = {"schema": schema_text(f"f{number}")}
        answers: list[Any] = []

        def register(body: Any = body, answers: list[Any] = answers) -> None:
            try:
                answers.append(request(alone.port, "POST", path, body))
            except OSError:
                answers.append((0, None))

        thread = threading.Thread(target=register)
        thread.start()
        time.sleep(chance.uniform(0, 0.006))
        alone.kill()
        thread.join()
        alone.start()
        alone.wait_ready()
        status, again = request(alone.port, "POST", path, body)
        assert status == 200
        # Appended or not before the kill, it is the next version and has the next id.
        assert (again["id"], again["version"]) == (first["id"] + number + 1, number + 2)
        if answers[0][0] == 200:
            assert answers[0][1] == again
    assert request(alone.port, "GET", path)[1] == list(range(1, 8))


def leader_of(found: list[RegistryInstance]) -> RegistryInstance:
    """Return the leader; there is none for a moment while the group rebalances."""
    leaders: list[RegistryInstance] = []

    def is_known() -> bool:
        leaders[:] = [each for each in found if each.leads()]
        return len(leaders) == 1

    wait_until(is_known)
    return leaders[0]


def test_three_instances_killed_under_load_lose_and_repeat_nothing(bootstrap: str) -> None:
    name = f"_schemas_{random.randrange(1 << 40)}"
    with instances(bootstrap, 3, "--topic", name, "--group", name) as found:
        gaps: list[float] = []
        while not gaps or (gaps[-1] > 0 and len(gaps) < ROUNDS):
            started = time.monotonic()
            found[0].kill()
            found[0].start()
            found[0].wait_ready()
            restart_s = time.monotonic() - started
            # A busy machine starts processes slowly: kills come no faster than instances return.
            every_s = max(1.0, restart_s)
            outcome = run_with_kills(found, seconds=max(12.0, 3 * every_s), every_s=every_s)
            check(found, outcome)
            print(outcome)
            assert outcome.kills >= 2
            assert len(outcome.acknowledged) > 50
            # A rebalance for every kill, and session timeouts, left gaps of 8 s.
            gaps.append(outcome.longest_gap_s - 3 - 4 * restart_s)
    assert gaps[-1] < 0, gaps


def test_killed_leader_is_replaced_within_the_session_timeout(bootstrap: str) -> None:
    """The leader stays dead: a follower removes it from the group."""
    name = f"_schemas_{random.randrange(1 << 40)}"
    with instances(bootstrap, 3, "--topic", name, "--group", name) as found:
        body = {"schema": schema_text("f")}
        assert request(found[0].port, "POST", "/subjects/s/versions", body)[0] == 200
        waits: list[float] = []
        while not waits or (waits[-1] > REPLACED_S and len(waits) < ROUNDS):
            leader = leader_of(found)
            follower = next(each for each in found if each is not leader)
            killed_at = time.monotonic()
            leader.kill()
            body = {"schema": schema_text(f"g{len(waits)}")}
            while request(follower.port, "POST", "/subjects/s/versions", body)[0] != 200:
                time.sleep(0.02)
            waits.append(time.monotonic() - killed_at)
            leader.start()
            leader.wait_ready()
            versions = list(range(1, len(waits) + 2))
            assert request(leader.port, "GET", "/subjects/s/versions")[1] == versions
    assert waits[-1] < REPLACED_S, waits


def test_stopped_leader_leaves_the_group(bootstrap: str) -> None:
    name = f"_schemas_{random.randrange(1 << 40)}"
    with instances(bootstrap, 2, "--topic", name, "--group", name) as found:
        body = {"schema": schema_text("f")}
        assert request(found[0].port, "POST", "/subjects/s/versions", body)[0] == 200
        leader = leader_of(found)
        (follower,) = (each for each in found if each is not leader)
        leader.stop()
        # The follower may have removed it a moment before: the listener is closed first.
        assert f"left group={name}" in leader.log.read_text()
        status, answer = request(follower.port, "POST", "/subjects/s/versions", body)
        assert (status, answer["id"]) == (200, 1)
        wait_until(follower.leads)


def test_follower_answers_what_the_leader_just_wrote(bootstrap: str) -> None:
    name = f"_schemas_{random.randrange(1 << 40)}"
    with instances(bootstrap, 3, "--topic", name, "--group", name) as found:
        for number in range(20):
            writer, reader = found[number % 3], found[(number + 1) % 3]
            body = {"schema": schema_text(f"f{number}")}
            status, answer = request(writer.port, "POST", "/subjects/s/versions", body)
            assert status == 200
            status, schema = request(reader.port, "GET", f"/schemas/ids/{answer['id']}")
            assert status == 200, schema


def test_two_registries_share_ids_with_what_is_in_the_topic(bootstrap: str) -> None:
    """Ids and versions continue those of the topic."""
    name = f"_schemas_{random.randrange(1 << 40)}"
    options = ("--topic", name, "--group", name)
    with instances(bootstrap, 1, *options) as (first,):
        for number in range(3):
            body = {"schema": schema_text(f"f{number}")}
            request(first.port, "POST", f"/subjects/s{number}/versions", body)
    with instances(bootstrap, 1, *options) as (second,):
        body = {"schema": schema_text("f9")}
        status, answer = request(second.port, "POST", "/subjects/s0/versions", body)
        assert (status, answer["id"], answer["version"]) == (200, 4, 2)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_topic_that_deletes_schemas_is_refused(bootstrap: str, tmp_path: Path, policy: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"_schemas_{random.randrange(1 << 40)}"
    topic = NewTopic(name, 1, 1, config={"cleanup.policy": policy})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([topic]).values():
        future.result()
    instance = RegistryInstance(bootstrap, tmp_path, "--topic", name)
    instance.start()
    deadline = time.monotonic() + 60
    while "set it to compact" not in instance.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    instance.stop()
