"""The parts of the node that the handlers of the data path use."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from barnabas.server.api.context import RequestContext

if TYPE_CHECKING:
    from barnabas.cluster.replication import Partition, ReplicaManager
    from barnabas.config.subscriptions import ConfigSubscriptions
    from barnabas.server.coordinators.transactions.transaction_verification import (
        Admission,
        Support,
    )
    from barnabas.server.replication.fetch_sessions import FetchSessionCache
    from barnabas.server.storage.record_helper import RecordHelper


@attrs.frozen
class DataServices:
    """What Produce, Fetch, ListOffsets, DeleteRecords and OffsetForLeaderEpoch need."""

    replicas: "ReplicaManager"
    records: "RecordHelper"
    fetch_sessions: "FetchSessionCache"
    settings: "ConfigSubscriptions"
    now_ms: Callable[[], int]
    """Returns the wall clock."""
    admission: "Callable[[Support, str, int, int, Iterable[tuple[str, int]]], Admission]"
    """Prepares a transaction's first writes: support, transactional id, producer, partitions."""
    flush: "Callable[[Partition], Awaitable[bool]]"
    """Makes a partition's log durable; False when that failed."""
    checkpoint_log_starts: Callable[[], Awaitable[object]]
    start_soon: Callable[[Callable[[], Awaitable[object]]], object]
    """Starts a task that runs as long as clients are served."""


DataContext: TypeAlias = RequestContext[DataServices]
