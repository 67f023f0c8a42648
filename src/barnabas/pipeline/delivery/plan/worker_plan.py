"""The values of a job that its tasks use, which Spark pickles: strings and numbers.

The callback for a token in a file is a value, too (`librdkafka_tokens`).
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

TRANSACTION_TIMEOUT_MS: Final = 60_000
POLL_RECORDS_MAX: Final = 5_000
LIMIT_S: Final = 5.0


@attrs.frozen
class TaskPlan:
    """The part of a job's plan that its tasks use, with properties under librdkafka's names."""

    job: str
    generation: int
    kind: str
    group_id: str
    transactional_id: str
    producer: Mapping[str, Any] = attrs.field(repr=False)
    consumer: Mapping[str, Any] = attrs.field(repr=False)
    properties: Mapping[str, str] = attrs.field(repr=False)
    target_topic: str | None = None
    connector_class: str = ""
    task_configs: tuple[Mapping[str, str], ...] = attrs.field(default=(), repr=False)
    topic_ids: Mapping[str, str] = attrs.field(factory=dict[str, str])
    is_single_task: bool = False
    """True when one task writes the records of all partitions."""
    is_at_least_once: bool = False
    """True when records and offsets are not one transaction."""
    skips_trimmed: bool = False
    """True when a task that reads ranges continues after offsets that retention deleted."""
    counts_trimmed: bool = False
    """True when tasks that get rows count the offsets that retention deleted before them."""
    offsets_topic: str = ""
    slice_ms: int = 0
    records_max: int = 0
    poll_records_max: int = POLL_RECORDS_MAX
    """The largest number of records that a writer gets at once."""
    limit_s: float = LIMIT_S
    """A task that reads ranges stops reading this time after its first record, and commits."""
    records_per_second_max: float = 0.0
    """The largest rate of one task of a source; 0 for none."""


def transactional_id(plan: TaskPlan, topic: str, partition: int) -> str:
    """Return the transactional id of a forward task.

    Names of topics have no colon, so job `a` with topic `b-c` and job `a-b` with topic `c` differ.
    """
    if plan.is_single_task:
        return f"{plan.transactional_id}-all"
    return f"{plan.transactional_id}:{topic}-{partition}"
