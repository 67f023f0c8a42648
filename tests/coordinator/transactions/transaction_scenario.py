"""Runs text scenarios of transactions, as `scenario` does those of groups.

Clients are named; each has the transactional id `x`, keeps the producer id and epoch that it
got, and speaks the second version if its name ends in 2. Markers wait until they are answered.

    init a timeout=1000 | init a owner    InitProducerId, as a new producer or with what it has
    add a t-0 t-1 | verify a t-0          partitions
    commit a | abort a                    EndTxn
    ... lag=1 | ... as=4/7                with the epoch before; with another producer id and epoch
    markers t-0 | markers t-0=REQUEST_TIMED_OUT      how partitions answer for the last markers
    exhaust a                             the client's epoch becomes the last one
    settings max_timeout_ms=5 | version 0 | advance 3000 | restart | refuse NOT_ENOUGH_REPLICAS
    describe | list state=Ongoing
"""

from pathlib import Path
from typing import Any

import attrs

from barnabas.coordinator.core.coordinator_output import Record
from barnabas.coordinator.transactions.pending_markers import MarkersAnswered, SendMarkers
from barnabas.coordinator.transactions.transaction_listing import Filters
from barnabas.coordinator.transactions.transaction_log_records import transaction_record
from barnabas.coordinator.transactions.transaction_settings import TransactionSettings
from barnabas.coordinator.transactions.transaction_state import TransactionState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordinator.groups.group_scenario import blocks, options, partition
from tests.coordinator.transactions.transaction_harness import Coordinator

ID = "x"
EXHAUSTED = 32_766


class Scenario:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.producers: dict[str, tuple[int, int]] = {}
        self.sent: list[tuple[SendMarkers, int]] = []
        self.coordinator = self.made(TransactionSettings())

    def made(self, settings: TransactionSettings) -> Coordinator:
        return Coordinator(settings, send=self.note_markers, appended=self.note_append)

    def run(self, command: str) -> None:
        verb, *words = command.split()
        getattr(self, f"do_{verb}")(*words)
        for token, response in self.coordinator.replies:
            self.lines.append(f"{token} <- {self.shown(token, response)}")
        self.coordinator.replies.clear()

    # Commands

    def do_settings(self, *words: str) -> None:
        changes = {name: int(value) for name, value in options(words)}
        self.coordinator = self.made(TransactionSettings(**changes))

    def do_version(self, level: str) -> None:
        self.coordinator.transaction_version = int(level)

    def do_init(self, name: str, *words: str) -> None:
        fields = dict(options(words))
        owner = self.producer(name, fields) if "owner" in fields else (-1, -1)
        self.coordinator.init(ID, name, owner=owner, timeout_ms=int(fields.get("timeout", "60000")))

    def producer(self, name: str, fields: dict[str, str]) -> tuple[int, int]:
        if "as" in fields:
            producer_id, _, epoch = fields["as"].partition("/")
            return int(producer_id), int(epoch)
        known, at = self.producers.get(name, (99, 0))
        return known, at - int(fields.get("lag", "0"))

    def do_add(self, name: str, *words: str) -> None:
        partitions = [partition(word) for word in words if "=" not in word]
        producer = self.producer(name, dict(options(words)))
        self.coordinator.add(ID, producer, partitions, name, _version(name))

    def do_verify(self, name: str, *words: str) -> None:
        partitions = [partition(word) for word in words]
        self.coordinator.verify(ID, self.producer(name, {}), partitions, name)

    def do_commit(self, name: str, *words: str) -> None:
        self._end(name, words, commit=True)

    def do_abort(self, name: str, *words: str) -> None:
        self._end(name, words, commit=False)

    def _end(self, name: str, words: tuple[str, ...], *, commit: bool) -> None:
        producer = self.producer(name, dict(options(words)))
        self.coordinator.end(ID, producer, commit=commit, token=name, version=_version(name))

    def do_markers(self, *words: str) -> None:
        markers, epoch = self.sent[-1]
        outcomes = {partition(name): ErrorCode[code or "NONE"] for name, code in options(words)}
        self.coordinator.markers_answered(
            MarkersAnswered(
                markers.transactional_id, markers.producer_id, markers.producer_epoch, outcomes
            ),
            epoch,
        )

    def do_exhaust(self, name: str) -> None:
        """As if the client had taken all epochs but the last."""
        shard = self.coordinator.shard
        present = shard._transactions[ID]
        worn = attrs.evolve(present, producer_epoch=EXHAUSTED)
        record = transaction_record(worn, 2)
        shard.replay(record.key, record.value)
        self.producers[name] = present.producer_id, EXHAUSTED

    def do_advance(self, duration_ms: str) -> None:
        self.coordinator.advance(int(duration_ms))

    def do_restart(self) -> None:
        self.coordinator.restart()

    def do_refuse(self, code: str) -> None:
        self.coordinator.refuse_next = ErrorCode[code]

    def do_describe(self) -> None:
        self.coordinator.do(lambda _: self.coordinator.shard.describe(ID, "describe"), "describe")

    def do_list(self, *words: str) -> None:
        fields = dict(options(words))
        request = ListTransactionsRequest(
            state_filters=fields["state"].split(",") if "state" in fields else []
        )
        filters = Filters.of(request, None)
        self.coordinator.do(
            lambda _: self.coordinator.shard.list_transactions(
                filters, self.coordinator.now_ms, "list"
            ),
            "list",
        )

    # What comes out

    def note_append(self, record: Record) -> None:
        value = record.value
        if value is None:
            self.lines.append("write tombstone")
            return
        partitions = " ".join(
            f"{schema.topic}-{number}"
            for schema in value.transaction_partitions or ()
            for number in schema.partition_ids
        )
        self.lines.append(
            f"write {TransactionState(value.transaction_status).label} "
            f"{value.producer_id}/{value.producer_epoch}"
            + (f" next={value.next_producer_id}" if value.next_producer_id >= 0 else "")
            + (f" {partitions}" if partitions else "")
            + (f" v{record.version}" if record.version != 1 else "")
        )

    def note_markers(self, markers: SendMarkers, epoch: int) -> None:
        self.sent.append((markers, epoch))
        what = "commit" if markers.commit else "abort"
        partitions = " ".join(f"{topic}-{number}" for topic, number in sorted(markers.partitions))
        self.lines.append(
            f"send {what} {markers.producer_id}/{markers.producer_epoch} {partitions} "
            f"tv={markers.transaction_version} coordinator={epoch}"
        )

    def shown(self, token: str, response: Any) -> str:
        if isinstance(response, ErrorCode):
            return response.name
        if isinstance(response, dict):
            return ", ".join(f"{t}-{n} {code.name}" for (t, n), code in sorted(response.items()))
        if isinstance(response, list):
            return (
                ", ".join(f"{each.transactional_id} {each.transaction_state}" for each in response)
                or "nothing"
            )
        if hasattr(response, "transaction_state"):
            start = response.transaction_start_time_ms
            return f"{response.transaction_state} since {start} topics={len(response.topics)}"
        if response.error_code:
            return ErrorCode(response.error_code).name
        if response.producer_id < 0:
            return "NONE"
        self.producers[token] = response.producer_id, response.producer_epoch
        return f"{response.producer_id}/{response.producer_epoch}"


def _version(name: str) -> int:
    return 2 if name.endswith("2") else 0


def outcome(file: Path) -> str:
    """The file's text with the lines that come out now."""
    scenario, written = Scenario(), list[str]()
    for commands, _ in blocks(file.read_text()):
        scenario.lines.clear()
        for command in commands:
            if not command.startswith("#"):
                scenario.run(command)
        shown = [*commands, *(["----", *scenario.lines] if scenario.lines else [])]
        written.append("\n".join(shown))
    return "\n\n".join(written) + "\n"
