"""`barnabas cluster elect`: preferred and unclean elections."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.admin_requests import ask, check
from barnabas.cli.command_errors import CliError
from barnabas.cli.terminal_output import counted
from barnabas.protocol.errors import ErrorCode, error_code
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.cli.client_options import Client

_PREFERRED, _UNCLEAN = 0, 1


class Candidate(NamedTuple):
    """A partition whose leader an election would change."""

    topic: str
    partition: int
    leader: int
    replicas: str


def partitions_to_elect(client: Client, topics: Sequence[str], *, unclean: bool) -> list[Candidate]:
    """Return the partitions that are not led by their preferred replica, or by none at all."""
    found = client.metadata().topics
    for name in topics:
        if name not in found:
            raise CliError(f"topic {name} does not exist")
    return [
        Candidate(name, number, each.leader, ",".join(map(str, each.replicas)))
        for name, topic in sorted(found.items())
        for number, each in sorted(topic.partitions.items())
        if (not topics or name in topics)
        and (each.leader < 0 if unclean else each.leader != each.replicas[0])
    ]


def elect(client: Client, wanted: Sequence[Candidate], *, unclean: bool) -> str:
    """Have the controller elect; return a line about the result. Raises CliError."""
    topics: dict[str, list[int]] = {}
    for each in wanted:
        topics.setdefault(each.topic, []).append(each.partition)
    kind = ElectLeadersRequest
    request = kind(
        election_type=_UNCLEAN if unclean else _PREFERRED,
        topic_partitions=[
            kind.TopicPartitions(topic=name, partitions=each) for name, each in topics.items()
        ],
    )
    answer = ask(client, request, ElectLeadersResponse)
    check(answer.error_code, None, "election")
    elected = 0
    refused: list[str] = []
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            if not each.error_code:
                elected += 1
            elif each.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                name = error_code(each.error_code).name
                refused.append(f"{topic.topic}-{each.partition_id}: {name}")
    if refused:
        raise CliError(
            f"{counted(elected, 'leader')} elected, {counted(len(refused), 'election')} refused: "
            + ", ".join(refused[:5])
        )
    return f"{counted(elected, 'leader')} elected"
