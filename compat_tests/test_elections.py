"""ElectLeaders where every leader is preferred: responses on the wire and in Kafka's tool."""

import pytest

from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from compat_tests import jars
from compat_tests.wire import call

NOT_NEEDED = (84, "Leader election not needed for topic partition.")
PREFERRED, UNCLEAN = 0, 1


def elect(bootstrap: str, *topics: tuple[str, list[int]], kind: int = PREFERRED, version: int = 2):
    """Return the top-level code, and (topic, [(partition, code, message)]) for each requested
    topic.
    """
    item = ElectLeadersRequest.TopicPartitions
    asked = [item(topic=name, partitions=numbers) for name, numbers in topics]
    request = ElectLeadersRequest(topic_partitions=asked)
    if version:
        request.election_type = kind
    return told(call(bootstrap, request, version))


def told(answer):
    return answer.error_code, [
        (
            each.topic,
            [(r.partition_id, r.error_code, r.error_message) for r in each.partition_result],
        )
        for each in answer.replica_election_results
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_preferred_leader_needs_no_election(bootstrap, topics, version) -> None:
    topic = topics.create("elect", partitions=2)
    answer = elect(bootstrap, (topic, [1, 0]), version=version)
    assert answer == (0, [(topic, [(1, *NOT_NEEDED), (0, *NOT_NEEDED)])])
    if version:
        answer = elect(bootstrap, (topic, [0]), kind=UNCLEAN, version=version)
        assert answer == (0, [(topic, [(0, *NOT_NEEDED)])])


def test_elect_leaders_reports_each_unknown_partition(bootstrap, topics, unique) -> None:
    topic, missing = topics.create("elect"), unique("missing")
    assert elect(bootstrap, (missing, [0]), (topic, [7, 0, 0]), (topic, [0])) == (
        0,
        [
            (missing, [(0, 3, f"No such topic as {missing}")]),
            (
                topic,
                [
                    (7, 3, f"No such partition as {topic}-7"),
                    (0, *NOT_NEEDED),
                    (0, *NOT_NEEDED),
                ],
            ),
            (topic, [(0, *NOT_NEEDED)]),
        ],
    )


def test_elect_leaders_for_all_partitions_reports_only_elections(bootstrap, topics) -> None:
    topic = topics.create("elect", partitions=2)
    for version in (0, 1, 2):
        answer = call(bootstrap, ElectLeadersRequest(topic_partitions=None), version)
        code, results = told(answer)
        assert code == 0
        assert dict(results)[topic] == []


def test_an_unknown_kind_is_refused_at_the_top_and_for_each(bootstrap, topics) -> None:
    topic = topics.create("elect")
    words = "Unknown election type 5"
    for version in (1, 2):
        answer = elect(bootstrap, (topic, [0]), kind=5, version=version)
        assert answer == (42, [(topic, [(0, 42, words)])])
    everything = ElectLeadersRequest(election_type=5, topic_partitions=None)
    assert told(call(bootstrap, everything, 2)) == (42, [])
    assert elect(bootstrap, kind=5) == (0, [])


@jars.needed
def test_kafkas_tool_elects(bootstrap, topics, unique) -> None:
    topic = topics.create("elect-tool")

    def tool(*arguments: str, check: bool = True):
        command = "org.apache.kafka.tools.LeaderElectionCommand"
        return jars.java(command, "--bootstrap-server", bootstrap, *arguments, check=check)

    one = ["--topic", topic, "--partition", "0"]
    for kind in ("preferred", "unclean"):
        out = tool("--election-type", kind, *one).stdout
        assert f"Valid replica already elected for partitions {topic}-0" in out
        tool("--election-type", kind, "--all-topic-partitions")
    failed = tool(
        "--election-type", "preferred", "--topic", unique("no"), "--partition", "0", check=False
    )
    assert failed.returncode != 0
    assert "UnknownTopicOrPartitionException" in failed.stdout + failed.stderr
