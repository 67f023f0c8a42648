"""The state of an app's queries as text: where each operator keeps it, and what it costs."""

from collections.abc import Mapping
from typing import Final

from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.query_progress import late_figure
from barnabas.pipeline.delivery.driver.spark_library import DataFrame
from barnabas.pipeline.streams.kernel_frames import BUCKETS_PROPERTY
from barnabas.pipeline.streams.kernels.bucketed_query import BUCKETS

_LATE: Final = late_figure("")
_KERNEL: Final = "FlatMapGroupsInPandasWithState"
_OBSERVED: Final = "CollectMetrics"
_SHUFFLES: Final = "RepartitionByExpression"

_COST_OF_BUCKETS: Final = """\
Buckets by key: one value in Spark's state for each bucket, with its keys in pages. A micro-batch
reads and writes the values of the buckets that its records are in, and decodes the pages that have
their keys. It costs the bytes of the state, then some microseconds a record; 256 buckets serve 50
million small keys. The property spark.barnabas.streams.buckets is fixed with the first state.
"""
_COST_OF_SPARK: Final = """\
Spark's state by key: one value for each key, in the JVM. A micro-batch reads and writes the keys
that its records have.
"""


def text_of(queries: Mapping[str, DataFrame]) -> str:
    """Return a line for each query, then what the kinds of state cost that they use."""
    lines: list[str] = []
    kinds: set[str] = set()
    for name, rows in queries.items():
        operators = [*_kernels(rows), *_operators_of_spark(rows)]
        kinds.update(kind for kind, _ in operators)
        lines.append(f"Query {name}: {'; '.join(text for _, text in operators) or 'no state'}")
    costs = (_COST_OF_BUCKETS, _COST_OF_SPARK)
    shown = [cost for cost in costs if cost.partition(":")[0] in kinds]
    return "\n".join([*lines, *(f"\n{each}" for each in shown)]).rstrip() + "\n"


def _kernels(rows: DataFrame) -> list[tuple[str, str]]:
    """Return the kinds and descriptions of the operators of a query that are kernels."""
    nodes = frame_sources.plan_nodes(rows)
    if not any(str(node.nodeName()) == _KERNEL for node in nodes):
        return []
    names = [str(node.name()) for node in nodes if str(node.nodeName()) == _OBSERVED]
    kernels = [name.removeprefix(_LATE) for name in names if name.startswith(_LATE)]
    buckets = rows.sparkSession.conf.get(BUCKETS_PROPERTY, str(BUCKETS))
    return [("Buckets by key", f"{each} in {buckets} buckets by key") for each in kernels]


def _operators_of_spark(rows: DataFrame) -> list[tuple[str, str]]:
    names = [str(node.nodeName()) for node in frame_sources.nodes_with_state(rows)]
    own = [name for name in names if name not in (_KERNEL, _SHUFFLES)]
    return [("Spark's state by key", f"{name} in Spark's state by key") for name in own]
