"""`barnabas job redrive`: dead letters back to the topics that they came from.

Each batch is one transaction: the records, and the position in the dead letter topic as an offset
of a group of the job and the conditions. So a record is sent back once, also when the command is
interrupted and started again.

A dead letter of a source is the text of a record that a transformation or a converter refused,
without its types. It has never been a record of the source's topic, so it is sent only to a topic
that the user names.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.client_options import Client, client_options, pairs
from barnabas.cli.command_errors import CliError
from barnabas.cli.job_requests import RunnerClient, job_path, runner_options
from barnabas.cli.terminal_output import counted

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

_PREFIX = "__connect.errors."
_CONNECTOR = f"{_PREFIX}connector.name"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_BATCH = 500
_POLL_S = 1.0
_TIMEOUT_S = 30.0

Headers = list[tuple[str, bytes | None]]


@click.command()
@click.argument("name", metavar="JOB")
@click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="HEADER=VALUE",
    help="Only dead letters with this error header, such as stage=VALUE_CONVERTER; repeatable.",
)
@click.option("--to", "target", metavar="TOPIC", help="Send to this topic. [default: the origin]")
@click.option("--dry-run", is_flag=True, help="Count the dead letters, and send nothing.")
@runner_options
@client_options
def redrive(
    client: Client,
    runner: RunnerClient,
    *,
    name: str,
    conditions: tuple[str, ...],
    target: str | None,
    dry_run: bool,
) -> None:
    """Send the dead letters of JOB back to where they came from, once each."""
    found = runner.ask("GET", job_path(name))
    topic = found["config"].get(_DEAD_LETTERS)
    if not topic:
        raise CliError(f"job {name} has no dead letter topic ({_DEAD_LETTERS})")
    if found["type"] == "source" and target is None:
        raise CliError(
            f"job {name} is a source: its dead letters are texts of records that were not "
            "transformed, so they are not sent to the topic of its records; --to TOPIC sends them "
            "to another topic, which a copy can transform"
        )
    wanted = pairs(conditions, "--where")
    redriving = _Redriving(client, name, topic, wanted, target)
    sent, skipped = redriving.run(dry_run=dry_run)
    verb = "found" if dry_run else "sent"
    click.echo(f"{verb} {counted(sent, 'dead letter')}, skipped {skipped:,}")


class _Redriving:
    """Reads the dead letters to their end and sends those that are wanted."""

    def __init__(
        self, client: Client, job: str, topic: str, wanted: dict[str, str], target: str | None
    ) -> None:
        self._client = client
        self._job = job
        self._topic = topic
        # Other conditions have other positions: what one run skips, another may send.
        self._group = "-".join(["redrive", job, *sorted(wanted.values())])
        self._wanted = wanted
        self._target = target

    def run(self, *, dry_run: bool) -> tuple[int, int]:
        """Return the number of dead letters sent and skipped. Raises CliError."""
        from confluent_kafka import KafkaException

        consumer = self._client.consumer(
            group_id=self._group,
            enable_auto_commit=False,
            enable_partition_eof=True,
            isolation_level="read_committed",
        )
        try:
            partitions = self._client.partitions(self._topic)
            producer: Any = None
            if not dry_run:
                # Before the positions are read: it ends another run, or its open transaction.
                producer = self._client.producer(transactional_id=self._group)
                producer.init_transactions(_TIMEOUT_S)
            consumer.assign(self._positions(consumer, partitions))
            return self._pump(consumer, producer, len(partitions))
        except KafkaException as error:
            raise self._client.failure(error.args[0], f"topic {self._topic}") from None
        finally:
            consumer.close()

    def _positions(self, consumer: Any, partitions: list[int]) -> list[TopicPartition]:
        """Return where earlier runs ended, or the beginning."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        found: list[TopicPartition] = consumer.committed(wanted, self._client.timeout)
        for each in found:
            if each.offset < 0:
                each.offset = OFFSET_BEGINNING
        return found

    def _pump(self, consumer: Any, producer: Any, partitions: int) -> tuple[int, int]:
        sent = skipped = 0
        ended: set[int] = set()
        answered = time.monotonic()
        while len(ended) < partitions:
            found = consumer.consume(_BATCH, _POLL_S)
            if found:
                answered = time.monotonic()
            self._client.check_lost(answered)
            ended |= _ended(found)
            messages = [each for each in found if each.error() is None]
            chosen = [each for each in messages if self._is_wanted(each)]
            sent += len(chosen)
            skipped += len(messages) - len(chosen)
            if producer is not None and messages:
                self._send(consumer, producer, chosen)
        return sent, skipped

    def _send(self, consumer: Any, producer: Any, chosen: list[Message]) -> None:
        from barnabas.pipeline.delivery.writing.transactional_producer import call_in_time

        producer.begin_transaction()
        for message in chosen:
            producer.produce(
                self._target or _origin(message),
                value=message.value(),
                key=message.key(),
                headers=[each for each in _headers(message) if not each[0].startswith(_PREFIX)],
            )
        positions = consumer.position(consumer.assignment())
        known = [each for each in positions if each.offset >= 0]
        group = consumer.consumer_group_metadata()
        call_in_time(lambda: producer.send_offsets_to_transaction(known, group, _TIMEOUT_S))
        producer.commit_transaction(_TIMEOUT_S)

    def _is_wanted(self, message: Message) -> bool:
        found = dict(_headers(message))
        job = self._job.encode()
        if found.get(_CONNECTOR, job) != job:  # jobs may share a topic of dead letters
            return False
        return all(
            found.get(_PREFIX + name.removeprefix(_PREFIX)) == value.encode()
            for name, value in self._wanted.items()
        )


def _ended(messages: list[Message]) -> set[int]:
    """Return the partitions that were read to their ends. Raises KafkaException for errors."""
    from confluent_kafka import KafkaError, KafkaException

    found: set[int] = set()
    for each in messages:
        error: Any = each.error()
        if error is None:
            continue
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        partition: Any = each.partition()
        found.add(partition)
    return found


def _headers(message: Message) -> Headers:
    found: Any = message.headers()
    return found or []


def _origin(message: Message) -> str:
    """Return the topic that a dead letter came from. Raises CliError."""
    topic = dict(_headers(message)).get(f"{_PREFIX}topic")
    if topic is None:
        raise CliError(
            f"the dead letter at {message.topic()}-{message.partition()}@{message.offset()} names "
            "no topic; set errors.deadletterqueue.context.headers.enable, or use --to"
        )
    return topic.decode()
