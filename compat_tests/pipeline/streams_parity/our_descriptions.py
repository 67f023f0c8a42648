"""The topologies of TopologyPeer.java, described by `barnabas.streams`."""

from collections.abc import Callable
from typing import Final

from barnabas import streams as ks

Describe = Callable[[ks.App], object]

TEXT: Final = {"key": ks.String(), "value": ks.String()}
TUMBLING: Final = ks.tumbling("1 minute", grace="5 seconds")
SESSION: Final = ks.session("1 minute", grace="5 seconds")
SLIDING: Final = ks.sliding("1 minute", grace="5 seconds")
WITHIN: Final = {"within": "1 minute", "grace": "5 seconds"}
RECORDS: Final = "array(struct(key, value))"


def left(app: ks.App) -> ks.Stream:
    return app.topic("left", **TEXT)


def right(app: ks.App) -> ks.Stream:
    return app.topic("right", **TEXT)


def left_table(app: ks.App) -> ks.Table:
    return app.table("left", **TEXT)


def right_table(app: ks.App) -> ks.Table:
    return app.table("right", **TEXT)


def pair(first: str, second: str) -> str:
    return first + second


class Nothing:
    """A processor without results."""

    def process(self, record: ks.Record, context: ks.ProcessContext) -> list[ks.Record]:
        return []


def branch(app: ks.App) -> None:
    for number, each in enumerate(left(app).branch("true", "true")):
        app.write(each, f"out-{number}")


def two_outputs(app: ks.App) -> None:
    records = left(app)
    app.write(records, "out")
    app.write(records.map_values("value").filter("true"), "out-1")
    app.write(records.filter("true"), "out-2")


def two_parts(app: ks.App) -> None:
    app.write(left(app).filter("true"), "out")
    app.write(right(app).map_values("value"), "out-1")


def many_outputs(app: ks.App) -> None:
    records = left(app).map_values("value")
    for number in range(12):
        app.write(records.filter("true").map_values("value"), f"out-{number}")


def two_aggregates(app: ks.App, name: str | None = None) -> None:
    grouped = left(app).group_by("value", name=name)
    app.write(grouped.count(), "out")
    app.write(grouped.reduce(pair), "out-1")


def two_groups(
    app: ks.App,
    first: Callable[[ks.Stream], ks.GroupedStream],
    second: Callable[[ks.Stream], ks.GroupedStream],
) -> None:
    records = left(app)
    app.write(first(records).count(), "out")
    app.write(second(records).count(), "out-1")


def by_value(records: ks.Stream) -> ks.GroupedStream:
    return records.group_by("value", name="by-value")


def by_old_key(records: ks.Stream) -> ks.GroupedStream:
    return records.group_by_key(name="by-value")


def by_new_key(records: ks.Stream) -> ks.GroupedStream:
    return records.select_key("value").group_by_key(name="by-value")


def new_keys_twice(app: ks.App) -> None:
    records = left(app).select_key("value")
    app.write(by_old_key(records).count(), "out")
    app.write(by_old_key(records).count(), "out-1")


def two_groups_of_a_table(app: ks.App) -> None:
    table = left_table(app)
    app.write(table.group_by("value", name="by-value").count(), "out")
    app.write(table.group_by("value", name="by-value").count(), "out-1")


def two_aggregates_of_a_table(app: ks.App) -> None:
    grouped = left_table(app).group_by("value", name="by-value")
    app.write(grouped.count(), "out")
    app.write(grouped.reduce(pair, pair), "out-1")


def counts(records: ks.Stream) -> ks.Table:
    return records.group_by_key().count()


def windows(app: ks.App) -> ks.Table:
    return left(app).window(TUMBLING).count()


def count_then_two_aggregates(app: ks.App) -> None:
    grouped = counts(left(app)).to_stream().group_by("key")
    app.write(grouped.count(), "out")
    app.write(grouped.reduce(max), "out-1")


def named(name: str) -> Describe:
    return out(lambda app: left(app).group_by("value", name=name).count())


def topic_twice(app: ks.App) -> None:
    app.write(left(app), "out")
    app.write(left(app).filter("true"), "out-1")


def table_in_two_joins(app: ks.App) -> None:
    table = right_table(app)
    app.write(app.topic("other", **TEXT).join_table(table), "out")
    app.write(left_table(app).filter("true").join(table.filter("true")), "out-1")


def out(make: Callable[[ks.App], ks.Stream | ks.Table]) -> Describe:
    """Return the topology that writes a stream or a table to `out`."""
    return lambda app: app.write(make(app), "out")


STATELESS: Final[dict[str, Describe]] = {
    "copy": out(left),
    "source-without-sink": left,
    "filter": out(lambda app: left(app).filter("true").filter_not("true")),
    "map": out(
        lambda app: left(app).map_values("value").map(key="key", value="value").select_key("value")
    ),
    "flat-map": out(
        lambda app: (
            left(app)
            .flat_map_values("array(value)")
            .flat_map(RECORDS)
            .peek(lambda key, value: None)
        )
    ),
    "branch": branch,
    "merge": out(lambda app: left(app).merge(right(app))),
    "two-outputs": two_outputs,
    "two-parts": two_parts,
    "many-outputs": many_outputs,
    "topic-twice": topic_twice,
}
AGGREGATES: Final[dict[str, Describe]] = {
    "count": out(lambda app: left(app).group_by_key().count()),
    "count-by-value": out(lambda app: left(app).group_by("value").count()),
    "count-by-name": out(lambda app: left(app).group_by("value", name="by-value").count()),
    "count-of-new-keys": out(
        lambda app: left(app).select_key("value").filter("true").group_by_key().count()
    ),
    "count-by-key-and-name": out(
        lambda app: left(app).select_key("value").group_by_key(name="by-value").count()
    ),
    "reduce": out(lambda app: left(app).group_by("value").reduce(pair)),
    "fold": out(lambda app: left(app).group_by_key().fold("", pair, returns="STRING")),
    "two-aggregates": two_aggregates,
    "two-aggregates-by-name": lambda app: two_aggregates(app, "by-value"),
    "aggregate-then-map": out(
        lambda app: (
            left(app)
            .group_by_key()
            .aggregate(most="max(value)")
            .filter("true")
            .map_values("value")
            .to_stream()
            .map(key="key", value="value")
        )
    ),
    "tumbling": out(lambda app: left(app).window(TUMBLING).sum("length(value)")),
    "tumbling-reduce": out(lambda app: left(app).group_by("value").window(TUMBLING).reduce(pair)),
    "final": out(lambda app: left(app).window(TUMBLING).count().final()),
    "session": out(lambda app: left(app).window(SESSION).count()),
    "session-reduce": out(lambda app: left(app).window(SESSION).reduce(pair)),
    "sliding": out(lambda app: left(app).group_by("value").window(SLIDING).count()),
    "process": out(lambda app: left(app).process(Nothing(), state="totals")),
}
TABLES: Final[dict[str, Describe]] = {
    "table": out(left_table),
    "table-filter": out(lambda app: left_table(app).filter("true").map_values("value")),
    "table-suppress": out(lambda app: left_table(app).suppress("1 minute")),
    "suppress": out(lambda app: left(app).group_by_key().count().suppress("1 minute")),
    "table-count": out(lambda app: left_table(app).group_by("value").count()),
    "table-count-by-name": out(
        lambda app: left_table(app).group_by("value", name="by-value").count()
    ),
    "table-reduce": out(
        lambda app: left_table(app).map_values("value").group_by("value").reduce(pair, pair)
    ),
    "table-fold": out(
        lambda app: left_table(app).group_by("value").fold("", pair, pair, returns="STRING")
    ),
    "table-filter-suppress": out(lambda app: left_table(app).filter("true").suppress("1 minute")),
    "tables-suppress": out(lambda app: left_table(app).join(right_table(app)).suppress("1 minute")),
    "foreign-key-suppress": out(
        lambda app: left_table(app).join(right_table(app), on="value").suppress("1 minute")
    ),
    "count-filter-suppress": out(
        lambda app: left(app).group_by_key().count().filter("true").suppress("1 minute")
    ),
    "table-in-two-joins": table_in_two_joins,
}
JOINS: Final[dict[str, Describe]] = {
    "stream-table": out(lambda app: left(app).join_table(right_table(app))),
    "stream-table-left": out(
        lambda app: left(app).left_join_table(right_table(app).filter("true"))
    ),
    "stream-table-new-keys": out(
        lambda app: left(app).select_key("value").join_table(right_table(app))
    ),
    "global-table": out(lambda app: left(app).join_table(right_table(app), on="value")),
    "global-table-left": out(lambda app: left(app).left_join_table(right_table(app), on="value")),
    "tables": out(lambda app: left_table(app).join(right_table(app))),
    "tables-left": out(lambda app: left_table(app).map_values("value").left_join(right_table(app))),
    "tables-outer": out(
        lambda app: left_table(app).outer_join(right_table(app)).map_values("value")
    ),
    "foreign-key": out(lambda app: left_table(app).join(right_table(app), on="value")),
    "foreign-key-left": out(lambda app: left_table(app).left_join(right_table(app), on="value")),
    "streams": out(lambda app: left(app).join(right(app), **WITHIN)),
    "streams-left": out(lambda app: left(app).left_join(right(app), **WITHIN)),
    "streams-outer": out(lambda app: left(app).outer_join(right(app), **WITHIN)),
    "streams-new-keys": out(
        lambda app: (
            left(app).select_key("value").join(right(app).map(key="key", value="value"), **WITHIN)
        )
    ),
}
CHAINS: Final[dict[str, Describe]] = {
    "count-then-count": out(
        lambda app: left(app).group_by("value").count().to_stream().group_by("key").count()
    ),
    "count-then-count-by-key": out(
        lambda app: counts(left(app)).to_stream().group_by_key().count()
    ),
    "count-then-count-by-name": out(
        lambda app: counts(left(app)).to_stream().group_by("key", name="second").count()
    ),
    "count-then-two-aggregates": count_then_two_aggregates,
    "three-counts": out(
        lambda app: (
            counts(counts(left(app)).to_stream().select_key("key"))
            .to_stream()
            .group_by("key")
            .count()
        )
    ),
    "count-then-table-count": out(lambda app: counts(left(app)).group_by("key").count()),
    "filter-then-table-count": out(
        lambda app: counts(left(app)).filter("true").group_by("key").count()
    ),
    "windows-then-count": out(lambda app: windows(app).to_stream().group_by("key").count()),
    "windows-then-table-count": out(lambda app: windows(app).group_by("key").count()),
    "final-then-reduce": out(
        lambda app: windows(app).final().to_stream().select_key("key").group_by_key().reduce(max)
    ),
    "join-then-count": out(
        lambda app: left(app).join_table(right_table(app)).group_by("left").count()
    ),
    "streams-then-count": out(
        lambda app: left(app).join(right(app), **WITHIN).group_by_key().count()
    ),
    "tables-then-count": out(
        lambda app: left_table(app).join(right_table(app)).group_by("left").count()
    ),
    "join-behind-count": out(lambda app: left(app).join_table(counts(right(app)))),
    "join-behind-mapped-count": out(
        lambda app: left(app).left_join_table(counts(right(app)).filter("true").map_values("value"))
    ),
    "join-behind-join": out(
        lambda app: (
            left(app)
            .join_table(right_table(app))
            .select_key("value.left")
            .join_table(app.table("other", **TEXT))
        )
    ),
    "streams-behind-count": out(
        lambda app: counts(left(app)).to_stream().join(counts(right(app)).to_stream(), **WITHIN)
    ),
    "join-of-counts": out(lambda app: counts(left(app)).join(counts(right(app)))),
    "merge-of-counts": out(
        lambda app: counts(left(app)).to_stream().merge(counts(right(app)).to_stream())
    ),
}
NAMED: Final[dict[str, Describe]] = {
    "name-of-two-groups": lambda app: two_groups(app, by_value, by_value),
    "name-of-two-groups-of-new-keys": new_keys_twice,
    "name-of-two-groups-of-old-keys": lambda app: two_groups(app, by_old_key, by_old_key),
    "name-of-new-keys-and-a-group": lambda app: two_groups(app, by_new_key, by_value),
    "name-of-two-groups-of-a-table": two_groups_of_a_table,
    "two-aggregates-of-a-table-by-name": two_aggregates_of_a_table,
    **{f"named-{name}": named(name) for name in ("", ".", "a b", "x" * 250)},
}
DESCRIPTIONS: Final = STATELESS | AGGREGATES | TABLES | JOINS | CHAINS | NAMED
