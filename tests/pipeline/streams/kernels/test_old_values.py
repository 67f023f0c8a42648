"""Changes of aggregates with the values that they replace."""

import json
from typing import cast

from barnabas.pipeline.streams.folded_groups import COUNT
from barnabas.pipeline.streams.kernels.bucket_state import BucketState
from barnabas.pipeline.streams.kernels.kernel_protocol import Kernel
from barnabas.pipeline.streams.kernels.old_values import WithOldValues
from barnabas.pipeline.streams.kernels.stream_aggregates import StreamAggregate
from tests.pipeline.streams.kernels.kernel_runs import record, run


def test_change_has_the_value_that_it_replaces() -> None:
    kernel = cast("Kernel", StreamAggregate(COUNT.aggregation()))
    taken = [record(key, b'{"v":"x"}', time_ms) for time_ms, key in enumerate([b"a", b"b", b"a"])]
    found = run(WithOldValues(kernel), taken)
    assert [(row.key, json.loads(row.value)) for row in found] == [
        (b"a", {"v": {"v": 1}, "o": None}),
        (b"b", {"v": {"v": 1}, "o": None}),
        (b"a", {"v": {"v": 2}, "o": {"v": 1}}),
    ]


def test_state_is_that_of_the_kernel_alone() -> None:
    kernel = cast("Kernel", StreamAggregate(COUNT.aggregation()))
    rows = [record(b"a", b'{"v":"x"}', 1)]
    alone, with_old = BucketState(), BucketState()
    list(kernel.step(rows, alone))
    list(WithOldValues(kernel).step(rows, with_old))
    assert WithOldValues(kernel).signature == kernel.signature
    assert with_old.tasks[0].store("aggregates") == alone.tasks[0].store("aggregates")
