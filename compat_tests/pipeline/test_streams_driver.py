"""The test driver of `barnabas.streams`: topologies on Spark, without Kafka."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import streams as ks
from compat_tests import spark as setup

pytestmark = [
    setup.needed,
    pytest.mark.timeout(600),
]

CLICK = ks.Json("user STRING, url STRING, ms BIGINT")


def clicks(app: ks.App) -> None:
    found = app.topic("clicks", key=ks.String(), value=CLICK, on_error="dead-letter")
    app.write(found.filter("url <> '/health'").map_values("upper(url)"), "urls")
    app.write(found.group_by("user").count(), "per-user")
    windows = found.group_by("user").window(ks.tumbling("100 milliseconds")).count()
    app.write(windows.final(), "per-window")


def click(user: str, url: str) -> dict[str, object]:
    return {"user": user, "url": url, "ms": 0}


def test_topology_runs_as_in_an_app(engine) -> None:
    with ks.TestDriver(clicks, session=engine.session) as driver:
        driver.pipe(
            "clicks",
            ("a", click("alice", "/x"), 10),
            ("a", click("alice", "/health"), 20),
            ("b", click("bob", "/y"), 120),
            ks.TestRecord("c", b"no json", 121, (("trace", b"7"),)),
        )
        urls = driver.read("urls", key=ks.String(), value=ks.String())
        assert urls == [ks.TestRecord("a", "/X", 10), ks.TestRecord("b", "/Y", 120)]
        counts = {"key": ks.String(), "value": ks.Long()}
        assert driver.table("per-user", **counts) == {"alice": 2, "bob": 1}
        window = ks.tumbling("100 milliseconds")
        assert driver.read("per-window", windows=window, **counts) == [
            ks.TestRecord("alice", 2, 20, window=(0, 100))
        ]
        (letter,) = driver.read("test-dead-letters")
        assert (letter.key, letter.value) == (b"c", b"no json")
        assert dict(letter.headers)["__connect.errors.topic"] == b"clicks"

        driver.pipe("clicks", ("a", click("bob", "/z"), 300), ("a", None, 301))
        assert driver.read("urls", key=ks.String(), value=ks.String()) == [
            ks.TestRecord("a", "/Z", 300)
        ]
        assert driver.table("per-user", **counts) == {"alice": 2, "bob": 2}
        assert driver.read("per-window", windows=window, **counts) == [
            ks.TestRecord("bob", 1, 120, window=(100, 200))
        ]
        assert driver.read("urls") == []
        with pytest.raises(ks.UnknownTopicError, match=r"does not read topic other; .*: clicks"):
            driver.pipe("other", ("a", b"1"))
        with pytest.raises(ks.UnknownTopicError, match="does not write topic clicks"):
            driver.read("clicks")
        with pytest.raises(ValueError, match="7 is not a text"):
            driver.pipe("clicks", (7, None))


def test_record_that_does_not_decode_fails_the_driver(engine) -> None:
    def describe(app: ks.App) -> None:
        app.write(app.topic("in", value=ks.Long()), "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", (None, b"123"))
        with pytest.raises(ks.StreamFailedError, match="query test-out failed: record in-0@0"):
            driver.process()


def test_driver_refuses_to_start_the_app(engine) -> None:
    def describe(app: ks.App) -> None:
        app.write(app.topic("in"), "out")
        app.run()

    with pytest.raises(RuntimeError, match="the test driver runs the app"):
        ks.TestDriver(describe, session=engine.session)


PERSON = ks.Json("name STRING, team STRING, pay BIGINT")
TITLED = "left.name || '/' || coalesce(right.title, '-')"
TEXT = {"key": ks.String(), "value": ks.String()}
NUMBERS = {"key": ks.String(), "value": ks.Long()}


def teams(app: ks.App) -> None:
    people = app.table("people", key=ks.String(), value=PERSON)
    others = app.table("teams", key=ks.String(), value=ks.Json("title STRING"))
    app.write(people.left_join(others, on="team", value=TITLED), "left")
    groups = people.group_by("team")
    app.write(groups.sum("pay"), "pay")
    names = groups.fold(
        [],
        lambda found, person: sorted([*found, person["name"]]),
        lambda found, person: [name for name in found if name != person["name"]] or None,
        returns="ARRAY<STRING>",
    )
    app.write(names, "names")


def person(name: str, team: str | None, pay: int) -> dict[str, object]:
    return {"name": name, "team": team, "pay": pay}


def test_tables_join_by_a_foreign_key_and_aggregates_take_old_values_out(engine) -> None:
    with ks.TestDriver(teams, session=engine.session) as driver:

        def tables() -> list[dict[str, object]]:
            forms = [TEXT, NUMBERS, {"key": ks.String(), "value": ks.Json()}]
            names = ("left", "pay", "names")
            return [driver.table(name, **form) for name, form in zip(names, forms, strict=True)]

        driver.pipe("teams", ("x", {"title": "X"}, 1_000))
        driver.pipe(
            "people",
            ("a", person("Ann", "x", 10), 1_000),
            ("b", person("Bo", "x", 20), 1_100),
            ("c", person("Cy", None, 5), 1_200),
        )
        assert tables() == [
            {"a": "Ann/X", "b": "Bo/X", "c": "Cy/-"},
            {"x": 30},
            {"x": ["Ann", "Bo"]},
        ]
        driver.pipe("teams", ("x", {"title": "X2"}, 2_000))
        driver.pipe("people", ("b", person("Bo", "y", 25), 2_100), ("c", None, 2_200))
        assert tables() == [
            {"a": "Ann/X2", "b": "Bo/-"},
            {"x": 10, "y": 25},
            {"x": ["Ann"], "y": ["Bo"]},
        ]
        driver.pipe("people", ("a", None, 3_000))
        assert tables() == [
            {"b": "Bo/-"},
            {"x": 0, "y": 25},
            {"y": ["Bo"]},
        ]


def suppressed(app: ks.App) -> None:
    people = app.table("people", key=ks.String(), value=PERSON)
    others = app.table("teams", key=ks.String(), value=ks.Json("title STRING"))
    app.write(people.map_values("name").suppress("1 second"), "names")
    joined = people.join(others, on="team", value=TITLED).suppress("1 second")
    app.write(joined, "joined")
    stream = app.topic("people", key=ks.String(), value=PERSON)
    windows = stream.window(ks.tumbling("10 seconds"))
    app.write(windows.sum("pay").suppress("1 second"), "pay")
    app.write(windows.fold("", lambda text, _: text + "+", returns="STRING").final(), "final")


def test_suppress_sends_the_newest_change_when_its_time_is_over(engine) -> None:
    with ks.TestDriver(suppressed, session=engine.session) as driver:
        driver.pipe("teams", ("x", {"title": "X"}, 900))
        driver.pipe(
            "people", ("a", person("Ann", "x", 1), 1_000), ("a", person("Anna", "x", 2), 1_500)
        )
        assert [driver.read(name) for name in ("names", "joined", "pay", "final")] == [[]] * 4
        driver.pipe("people", ("b", person("Bo", "y", 5), 2_000), ("b", None, 2_100))
        driver.pipe("people", ("c", person("Cy", "y", 5), 10_000))
        names = driver.read("names", **TEXT)
        assert sorted(names, key=lambda each: each.key) == [
            ks.TestRecord("a", "Anna", 1_500),
            ks.TestRecord("b", None, 2_100),
        ]
        assert driver.table("joined", **TEXT) == {"a": "Anna/X"}
        windows = ks.tumbling("10 seconds")
        pay = driver.read("pay", windows=windows, **NUMBERS)
        assert sorted(pay, key=lambda each: each.key) == [
            ks.TestRecord("a", 3, 1_500, window=(0, 10_000)),
            ks.TestRecord("b", 5, 2_000, window=(0, 10_000)),
        ]
        final = driver.read("final", windows=windows, **TEXT)
        assert sorted((each.key, each.value) for each in final) == [("a", "++"), ("b", "+")]


def limited(app: ks.App) -> None:
    people = app.table("people", key=ks.String(), value=PERSON)
    app.write(people.map_values("name").suppress("1 hour", max_records=2), "names")
    stream = app.topic("people", key=ks.String(), value=PERSON)
    count = stream.group_by_key().count()
    app.write(count.suppress("1 hour", max_records=2), "counts")
    teams = stream.group_by("value.team").count()
    app.write(teams.suppress("1 hour", max_records=1), "teams")
    windows = stream.window(ks.tumbling("10 seconds")).sum("pay")
    app.write(windows.suppress("1 hour", max_records=2), "pay")
    joined = people.left_join(people, value="left.name").suppress("1 hour", max_records=1)
    app.write(joined, "joined")


def test_suppress_with_most_records_sends_the_oldest_key_of_a_partition_early(engine) -> None:
    """The keys are in different buckets; the limit is one for all keys of a partition."""
    with ks.TestDriver(limited, session=engine.session) as driver:
        driver.pipe("people", ("a", person("Ann", "x", 1), 1_000))
        driver.pipe("people", ("b", person("Bo", "x", 2), 2_000), partition=1)
        driver.pipe("people", ("c", person("Cy", "x", 3), 3_000))
        assert [driver.read(name) for name in ("names", "counts", "pay")] == [[]] * 3
        driver.pipe("people", ("a", person("Anna", "x", 4), 4_000))
        driver.pipe("people", ("d", person("Di", "x", 5), 5_000))
        assert driver.read("names", **TEXT) == [ks.TestRecord("a", "Anna", 4_000)]
        assert driver.read("counts", **NUMBERS) == [ks.TestRecord("a", 2, 4_000)]
        assert driver.read("pay", windows=ks.tumbling("10 seconds"), **NUMBERS) == [
            ks.TestRecord("a", 5, 4_000, window=(0, 10_000))
        ]
        driver.pipe("people", ("e", None, 2_500), ("f", person("Fi", "x", 6), 5_500))
        assert driver.read("names", **TEXT) == [
            ks.TestRecord("e", None, 2_500),
            ks.TestRecord("c", "Cy", 3_000),
        ]
        assert driver.read("counts", **NUMBERS) == [ks.TestRecord("c", 1, 3_000)]
        assert driver.read("teams") == []


def test_suppress_with_most_records_sends_the_newest_change_of_each_key_last(engine) -> None:
    end_ms = 10_000_000
    with ks.TestDriver(limited, session=engine.session) as driver:
        for number in range(60):
            key, team = f"k{number % 13}", f"t{number % 7}"
            place = {"partition": number % 13 % 3}
            driver.pipe("people", (key, person(f"n{number}", team, 1), 1_000 + number), **place)
        for number in range(64):  # each partition of a repartition gets a key
            end = (f"end-{number}", person("end", f"end-{number}", 1), end_ms + number)
            driver.pipe("people", end, partition=number % 3)
        names = driver.table("names", **TEXT)
        counts, groups = (driver.table(name, **NUMBERS) for name in ("counts", "teams"))
        joined = driver.table("joined", **TEXT)
    keys = [f"k{number}" for number in range(13)]
    newest = {f"k{number % 13}": f"n{number}" for number in range(60)}
    assert [{key: found.get(key) for key in keys} for found in (names, joined)] == [newest] * 2
    assert [counts[key] for key in keys] == [5] * 8 + [4] * 5
    assert [groups[f"t{number}"] for number in range(7)] == [9] * 4 + [8] * 3


def test_an_aggregate_may_be_a_column(engine) -> None:
    from pyspark.sql import functions

    def describe(app: ks.App) -> None:
        number, highest = functions.count("*"), functions.max("pay")
        groups = app.topic("people", key=ks.String(), value=PERSON).group_by("team")
        app.write(groups.aggregate(n=number, most=highest), "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        people = (("a", "x", 3), ("b", "y", 1), ("c", "x", 2))
        driver.pipe(
            "people",
            *((name, {"name": name, "team": team, "pay": pay}, 0) for name, team, pay in people),
        )
        totals = driver.table("out", key=ks.String(), value=ks.Json("n BIGINT, most BIGINT"))
    assert totals == {"x": {"n": 2, "most": 3}, "y": {"n": 1, "most": 1}}


def test_filter_behind_a_fold_writes_needed_tombstones_only(engine) -> None:
    def describe(app: ks.App) -> None:
        pay = app.table("people", key=ks.String(), value=PERSON).group_by("team").sum("pay")
        app.write(pay.map_values("value * 10").filter("value > 50"), "out")
        counts = app.topic("clicks", key=ks.String(), value=CLICK).group_by("user").count()
        app.write(counts.filter("value = 2"), "twice")

    with ks.TestDriver(describe, session=engine.session) as driver:
        people = [("a", 2), ("b", 2), ("b", 5), ("b", 1), ("b", 2)]
        driver.pipe("people", *[(name, person(name, "X", pay), 1) for name, pay in people])
        found = [(each.key, each.value) for each in driver.read("out", **NUMBERS)]
        assert found == [("X", 70), ("X", None)]
        # Spark's aggregation does not return the value before a change.
        for ms in range(3):
            driver.pipe("clicks", ("a", click("alice", "/x"), ms))
            driver.process()
        found = [(each.key, each.value) for each in driver.read("twice", **NUMBERS)]
        assert found == [("alice", None), ("alice", 2), ("alice", None)]


def test_suppress_with_a_wrong_limit_is_refused(engine) -> None:
    def describe(app: ks.App) -> None:
        table = app.table("people", key=ks.String(), value=PERSON)
        for number in (0, -1):
            with pytest.raises(ValueError, match=f"must be 1 or more, not {number}"):
                table.suppress("1 second", max_records=number)
        aggregate = app.topic("people", value=PERSON).group_by("team").aggregate(n="count(*)")
        for refused in (aggregate, table.suppress("1 second", max_records=1)):
            with pytest.raises(ks.OperatorError, match="write the table to a topic"):
                refused.suppress("1 second", max_records=1)
        app.write(table, "out")

    ks.TestDriver(describe, session=engine.session).close()


def test_suppress_where_no_kernel_can_follow_is_refused(engine) -> None:
    def describe(app: ks.App) -> None:
        table = app.table("people", key=ks.String(), value=PERSON)
        windows = app.topic("people", value=PERSON).window(ks.tumbling("1 minute"))
        for refused in (
            lambda: windows.aggregate(n="count(*)").suppress("1 second"),
            lambda: windows.count().final().suppress("1 second"),
            lambda: windows.count().suppress("1 second").final(),
            lambda: table.suppress("1 second").suppress("1 second"),
        ):
            with pytest.raises(ks.OperatorError, match="write the table to a topic"):
                refused()
        with pytest.raises(ks.OperatorError, match="group_by_key cannot take keys with windows"):
            windows.count().to_stream().group_by_key()
        with pytest.raises(ks.OperatorError, match="join_table cannot take keys with windows"):
            app.topic("teams").join_table(windows.count())
        with pytest.raises(ks.OperatorError, match="needs an expression"):
            table.group_by()
        with pytest.raises(ks.KeyTypeError, match="bigint and string"):
            table.join(table, on="pay")
        app.write(table, "out")

    ks.TestDriver(describe, session=engine.session).close()


def idle() -> ks.Processor:
    class Idle:  # Spark's workers cannot import the test's module
        """Numbers the records of a user, and sends users that had none for 100 ms."""

        def process(self, record: ks.Record, context: ks.ProcessContext) -> list[ks.Record]:
            counts = context.store("counts")
            count, _ = counts.get(record.key, (0, 0))
            counts[record.key] = [count + 1, record.timestamp]
            text = f"{record.value['user']} {count + 1}"
            return [ks.Record(record.key.encode(), text, headers=record.headers)]

        def punctuate(self, context: ks.ProcessContext) -> list[ks.Record]:
            counts = context.store("counts")
            ended = [key for key, (_, ms) in counts.items() if ms <= context.stream_time - 100]
            return [ks.Record(key.encode(), f"idle {counts.pop(key)[0]}") for key in ended]

    return Idle()


def test_processor_keeps_its_state_and_is_called_by_stream_time(engine) -> None:
    def describe(app: ks.App) -> None:
        stream = app.topic("clicks", key=ks.String(), value=CLICK)
        found = stream.process(
            idle(), state="idle", every="50 milliseconds", returns="STRING", key_returns="BINARY"
        )
        app.write(found, "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("clicks", ks.TestRecord("a", click("alice", "/"), 10, (("trace", b"7"),)))
        driver.pipe("clicks", ("b", click("bob", "/"), 20))
        first = driver.read("out", value=ks.String())
        assert sorted(first, key=lambda each: each.key) == [
            ks.TestRecord(b"a", "alice 1", 10, (("trace", b"7"),)),
            ks.TestRecord(b"b", "bob 1", 20),
        ]
        driver.pipe("clicks", ("a", click("alice", "/"), 60), ("c", click("carol", "/"), 130))
        found = driver.read("out", value=ks.String())
        assert sorted(found, key=lambda each: each.key) == [
            ks.TestRecord(b"a", "alice 2", 60),
            ks.TestRecord(b"b", "idle 1", 130),
            ks.TestRecord(b"c", "carol 1", 130),
        ]


def waiting() -> ks.Processor:
    class Waiting:  # Spark's workers cannot import the test's module
        """Counts the records of a key, and sends the counts by both times."""

        def process(self, record: ks.Record, context: ks.ProcessContext) -> None:
            counts = context.store("counts")
            counts[record.key] = counts.get(record.key, 0) + 1

        def punctuate(self, context: ks.ProcessContext) -> list[ks.Record]:
            return self.counts("stream", context)

        def punctuate_wall_clock(self, time_ms: int, context: ks.ProcessContext) -> list[ks.Record]:
            found = self.counts(f"clock {time_ms}", context)
            context.store("counts").clear()
            return found

        def counts(self, name: str, context: ks.ProcessContext) -> list[ks.Record]:
            counts = context.store("counts").items()
            return [ks.Record(key, f"{name} {count}") for key, count in sorted(counts)]

    return Waiting()


def test_processor_is_called_by_the_wall_clock_while_no_records_arrive(engine) -> None:
    def describe(app: ks.App) -> None:
        stream = app.topic("in", key=ks.String(), value=ks.String())
        each = {"state": "waiting", "wall_clock_every": "10 seconds"}
        app.write(stream.process(waiting(), **each), "out")
        both = stream.select_key("key || '2'").process(waiting(), every="1 second", **each)
        app.write(both, "out-of-both")

    text = {"key": ks.String(), "value": ks.String()}
    with ks.TestDriver(describe, session=engine.session, wall_clock=1_000) as driver:
        driver.pipe("in", ("a", "1", 70), ("b", "2", 80), ("a", "3", 60))
        driver.pipe("in", ("c", "4", 500), partition=1)
        assert driver.read("out", **text) == []
        driver.advance_wall_clock("8999 milliseconds")
        assert driver.read("out", **text) == []
        driver.advance_wall_clock("1 millisecond")
        found = driver.read("out", **text)
        assert sorted(found, key=lambda each: each.key) == [
            ks.TestRecord("a", "clock 10000 2", 10_000),
            ks.TestRecord("b", "clock 10000 1", 10_000),
            ks.TestRecord("c", "clock 10000 1", 10_000),
        ]
        # Several times that passed are one call, behind the records that came before.
        driver.pipe("in", ("b", "5", 90))
        driver.advance_wall_clock("35 seconds")
        assert driver.read("out", **text) == [ks.TestRecord("b", "clock 45000 1", 45_000)]
        # Both kinds of punctuation, side by side.
        assert {each.value.split()[0] for each in driver.read("out-of-both", **text)} == {
            "stream",
            "clock",
        }
        assert driver.table("out-of-both", **text)["b2"] == "clock 45000 1"


def test_processor_that_needs_punctuate_and_lacks_it_is_refused(engine) -> None:
    class Silent:
        def process(self, record: ks.Record, context: ks.ProcessContext) -> None: ...

        def punctuate_wall_clock(self, time_ms: int, context: ks.ProcessContext) -> None: ...

    def describe(app: ks.App) -> None:
        stream = app.topic("in")
        with pytest.raises(ks.OperatorError, match="needs a method punctuate"):
            stream.process(Silent(), state="silent", every="1 second")
        with pytest.raises(ks.OperatorError, match="needs a method punctuate_wall_clock"):
            stream.process(waiting().process, state="silent", wall_clock_every="1 second")
        with pytest.raises(ks.OperatorError, match="shorter than a millisecond"):
            stream.process(Silent(), state="silent", wall_clock_every="0 seconds")
        windows = stream.window(ks.tumbling("1 second")).count().to_stream()
        with pytest.raises(ks.OperatorError, match="process cannot take keys with windows"):
            windows.process(Silent(), state="silent")
        app.write(stream, "out")

    ks.TestDriver(describe, session=engine.session).close()


def test_operators_without_time_run_in_spark(engine, tmp_path) -> None:
    seen = str(tmp_path / "seen")

    def note(key: str, value: str) -> None:
        with open(seen, "a") as file:
            file.write(f"{key}={value} ")

    windows, gap = ks.hopping("100 milliseconds", "50 milliseconds"), ks.session("1 second")

    def describe(app: ks.App) -> None:
        left, right = (app.topic(name, key=ks.String(), value=ks.String()) for name in ("l", "r"))
        app.write(left.peek(note), "peeked")
        app.write(left.map(key="value", value="key"), "mapped")
        elements = "array(struct(key, value), struct(value AS key, key AS value))"
        app.write(left.flat_map(elements), "flat")
        app.write(left.window(windows).count(), "hopping")
        app.write(left.merge(right).window(gap).count(), "sessions")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("l", ("a", "1", 30), ("b", "1", 120))
        driver.pipe("r", ("a", "x", 65), partition=1)
        peeked = driver.read("peeked", **TEXT)
        assert [(each.key, each.value) for each in peeked] == [("a", "1"), ("b", "1")]
        assert (tmp_path / "seen").read_text() == "a=1 b=1 "
        assert [each.key for each in driver.read("mapped", **TEXT)] == ["1", "1"]
        flat = [(each.key, each.value) for each in driver.read("flat", **TEXT)]
        assert flat == [("a", "1"), ("1", "a"), ("b", "1"), ("1", "b")]
        assert driver.table("hopping", windows=windows, **NUMBERS) == {
            ("a", 0, 100): 1, ("b", 50, 150): 1, ("b", 100, 200): 1
        }  # fmt: skip
        sessions = driver.table("sessions", windows=gap, **NUMBERS)
        assert sessions == {("a", 30, 65): 2, ("b", 120, 120): 1}


def test_operators_with_time_run_in_spark(engine) -> None:
    def describe(app: ks.App) -> None:
        left, right = (app.topic(name, key=ks.String(), value=ks.String()) for name in ("l", "r"))
        app.write(left.dedupe("1 second", by="value"), "unique")
        pair = "left || '/' || coalesce(right, '-')"
        app.write(left.left_join(right, within="10 milliseconds", value=pair), "joined")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("l", ("a", "1", 60), ("b", "1", 120), ("c", "2", 130))
        driver.pipe("r", ("a", "x", 65))
        unique = driver.read("unique", **TEXT)
        assert sorted(each.value for each in unique) == ["1", "2"]
        joined = driver.read("joined", **TEXT)
        assert ("a", "1/x") in [(each.key, each.value) for each in joined]
        driver.pipe("l", ("a", "1", 500), ("d", "9", 20_000))
        driver.pipe("r", ("d", "y", 20_000))
        assert [each.value for each in driver.read("unique", **TEXT)] == ["9"]
        joined += driver.read("joined", **TEXT)
        assert sorted((each.key, each.value) for each in joined) == [
            ("a", "1/-"), ("a", "1/x"), ("b", "1/-"), ("c", "2/-"), ("d", "9/y")
        ]  # fmt: skip


def test_folds_of_decimals_keep_all_digits(engine) -> None:
    decimals = ks.Json("n DECIMAL(38, 4), d DOUBLE")

    def describe(app: ks.App) -> None:
        groups = app.topic("in", key=ks.String(), value=decimals).group_by_key()
        total = {"n": 0, "d": 0.0}
        totals = groups.fold(
            total,
            lambda found, value: {name: found[name] + value[name] for name in total},
            returns="n DECIMAL(38, 4), d DOUBLE",
        )
        app.write(totals, "totals", value=decimals)
        sessions = groups.window(ks.session("1 second")).sum("n")
        app.write(sessions.map_values("CAST(value AS STRING)"), "sessions")

    with ks.TestDriver(describe, session=engine.session) as driver:
        one = "1234567890123456789012345678901234.0001"
        values = (b'{"n":%s,"d":0.1}' % one.encode(), b'{"n":"0.0002","d":0.2}')
        driver.pipe("in", *(ks.TestRecord(b"k", each, 1) for each in values))
        exact = "1234567890123456789012345678901234.0003"
        last = driver.read("totals")[-1].value
        assert json.loads(last, parse_float=str) == {"n": exact, "d": "0.30000000000000004"}
        assert driver.read("sessions")[-1].value == exact.encode()


def test_result_of_another_type_than_declared_fails_the_query(engine) -> None:
    def describe(app: ks.App) -> None:
        stream = app.topic("in", key=ks.String(), value=ks.String())
        texts = stream.group_by_key().fold("", lambda _, value: value, returns="BIGINT")
        app.write(texts, "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", ("a", "no number"))
        with pytest.raises(ks.StreamFailedError, match="MALFORMED_RECORD_IN_PARSING") as raised:
            driver.process()
    assert raised.value.failure.is_permanent


def results(result: Any, returns: str) -> Callable[[ks.App], object]:
    """Describe a query with one function, whose results are written as JSON."""

    def describe(app: ks.App) -> None:
        made = app.topic("in").map_values(lambda _key, _value: result, returns=returns)
        app.write(made.map_values("to_json(struct(value))"), "out")

    return describe


@pytest.mark.parametrize(
    ("result", "returns", "expected"),
    [
        (1, "DOUBLE", {"value": 1.0}),
        (1, "DECIMAL(5,2)", {"value": 1.00}),
        ({"n": 1, "x": [2]}, "n BIGINT, x ARRAY<DOUBLE>", {"value": {"n": 1, "x": [2.0]}}),
        ((1, None), "n BIGINT, x ARRAY<DOUBLE>", {"value": {"n": 1}}),
        ({"a": 1}, "MAP<STRING, FLOAT>", {"value": {"a": 1.0}}),
    ],
)
def test_function_result_gets_the_declared_type(engine, result, returns, expected) -> None:
    """Spark would write null, which deletes the key of a table."""
    with ks.TestDriver(results(result, returns), session=engine.session) as driver:
        driver.pipe("in", (None, b""))
        (found,) = driver.read("out", value=ks.String())
    assert json.loads(found.value) == expected


@pytest.mark.parametrize(
    ("result", "returns", "expected"),
    [
        ("text", "INT", "the result 'text' of type str does not fit INT"),
        (1.5, "BIGINT", "the result 1.5 of type float does not fit BIGINT"),
        (2**31, "INT", "the result 2147483648 of type int does not fit INT"),
        ({"n": 1}, "STRING", "the result {'n': 1} of type dict does not fit STRING"),
        ({"m": 1}, "n INT", "the result has the field 'm', which STRUCT<N:INT> does not have"),
    ],
)
def test_function_result_of_another_type_ends_the_app(engine, result, returns, expected) -> None:
    with ks.TestDriver(results(result, returns), session=engine.session) as driver:
        driver.pipe("in", (None, b""))
        with pytest.raises(ks.StreamFailedError, match=re.escape(expected)) as raised:
            driver.process()
    assert "returned a wrong value for record in-0@0" in str(raised.value)


def test_truth_of_a_predicate_is_that_of_python(engine) -> None:
    def describe(app: ks.App) -> None:
        stream = app.topic("in", key=ks.String(), value=ks.Long())
        app.write(stream.filter(lambda _key, value: value & 1), "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", ("a", 1), ("b", 2), ("c", 3))
        assert [each.key for each in driver.read("out", key=ks.String())] == ["a", "c"]


@pytest.mark.parametrize(
    ("read", "written", "expected"),
    [
        (ks.Custom("BIGINT", decode=bytes.decode), None, "does not decode.*'12' of type str"),
        (None, ks.Custom("BINARY", encode=len), "the result 2 of type int does not fit BINARY"),
    ],
)
def test_custom_serde_with_a_result_of_another_type_ends_the_app(
    engine, read, written, expected
) -> None:
    def describe(app: ks.App) -> None:
        app.write(app.topic("in", value=read), "out", value=written)

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", (None, b"12"))
        with pytest.raises(ks.StreamFailedError, match=expected):
            driver.process()


@pytest.mark.parametrize(
    ("schema", "data", "time_ms"),
    [
        ("at DOUBLE", b'{"at": 1700000000000.9}', 1_700_000_000_000),
        ("at DECIMAL(20,0)", b'{"at": 1700000000000}', 1_700_000_000_000),
        ("at BIGINT", b'{"at": 1700000000000}', 1_700_000_000_000),
        ("at STRING", b'{"at": "2026-01-01T00:00:00Z"}', 1_767_225_600_000),
        ("at DATE", b'{"at": "2026-01-01"}', 1_767_225_600_000),
        ("at STRING", b'{"at": "yesterday"}', "is not a time: yesterday"),
        ("at BIGINT", b'{"at": 9223372036854775807}', "is not a time: 9223372036854775807"),
        ("at BIGINT", b"{}", "the time (at) is null"),
    ],
)
def test_time_is_that_of_the_expression_or_the_record_does_not_decode(
    engine, schema, data, time_ms
) -> None:
    def describe(app: ks.App) -> None:
        app.write(app.topic("in", value=ks.Json(schema), time="at", on_error="dead-letter"), "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", (None, data, 5))
        found = driver.read("out")
        if isinstance(time_ms, int):
            assert [each.timestamp for each in found] == [time_ms]
            return
        assert not found
        (letter,) = driver.read("test-dead-letters")
        reason = dict(letter.headers)["__connect.errors.exception.message"]
        assert letter.value == data
        assert reason is not None
        assert time_ms in reason.decode()


def test_expression_that_fails_is_named_in_one_line(engine) -> None:
    def describe(app: ks.App) -> None:
        stream = app.topic("in", value=ks.Long())
        with pytest.raises(ks.OperatorError) as raised:
            stream.filter("missing > 1")
        assert "`missing` cannot be resolved" in str(raised.value)
        assert "\n" not in str(raised.value)
        with pytest.raises(ks.OperatorError, match=r'non-aggregating expression "value"') as raised:
            stream.group_by_key().aggregate(x="value + 1")
        assert "\n" not in str(raised.value)
        with pytest.raises(ks.KeyTypeError, match="the keys of a join are binary and bigint"):
            stream.join(app.topic("other", key=ks.Long()), within="1 minute")
        app.write(stream.map_values("10 / value"), "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", (None, 0))
        with pytest.raises(ks.StreamFailedError, match="the expression `10 / value`") as raised:
            driver.process()
    assert raised.value.failure.is_permanent
    assert "\n" not in str(raised.value)
