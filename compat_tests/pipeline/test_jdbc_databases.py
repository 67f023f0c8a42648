"""The JDBC connectors' tasks on each database: modes, exactly-once batches, lost connections."""

import threading
from collections.abc import Iterator

import pytest

from barnabas.pipeline.data import connect_schema as s
from barnabas.pipeline.data.connect_errors import ConnectError, RetriableError
from compat_tests.database_process import DatabaseProcess
from compat_tests.pipeline.jdbc_tasks import (
    KEY,
    ROW,
    UPSERT,
    WIDER,
    ids,
    position,
    record,
    sink,
    source,
    stop_all,
    sunk,
    write,
)

pytestmark = [pytest.mark.timeout(300), pytest.mark.barnabas_only]


@pytest.fixture(params=["database", "maria"], ids=["postgres", "mariadb"])
def db(request: pytest.FixtureRequest) -> Iterator[DatabaseProcess]:
    """A server without tables."""
    process: DatabaseProcess = request.getfixturevalue(request.param)
    process.clear()
    yield process
    stop_all()


PEOPLE = (
    "CREATE TABLE people (id serial primary key, name text, changed timestamp(6) NOT NULL)",
    "INSERT INTO people (name, changed) VALUES ('Ada', '2024-01-01 10:00:00.123456')",
    "INSERT INTO people (name, changed) VALUES (NULL, '2024-01-01 10:00:00.123456')",
    "INSERT INTO people (name, changed) VALUES ('Bo', '2024-01-01 10:00:00.123457')",
)


def test_incrementing_continues_behind_its_offset(db: DatabaseProcess):
    db.run(*PEOPLE)
    props = {"mode": "incrementing", "incrementing_column_name": "id", "batch_max_rows": "2"}
    records = source(db, **props).poll()
    assert ids(records) == [1, 2]
    assert records[0].topic == "db-people"
    assert records[0].value_schema is not None
    assert records[0].value_schema.name == "people"
    assert records[1].source_partition == {"protocol": "1", "table": f"{db.schema}.people"}
    assert records[1].source_offset == {"incrementing": 2}
    again = source(db, records[1].source_offset, **props)
    assert ids(again.poll()) == [3]
    assert again.poll() == []
    db.run("INSERT INTO people (name, changed) VALUES ('Cy', now())")
    assert ids(again.poll()) == [4]


def test_timestamp_keeps_microseconds_and_rows_of_a_moment_together(db: DatabaseProcess):
    db.run(*PEOPLE)
    props = {"mode": "timestamp", "timestamp_column_name": "changed", "batch_max_rows": "1"}
    records = source(db, **props).poll()
    assert ids(records) == [1, 2]
    offset = records[1].source_offset
    assert offset == {"timestamp": 1704103200123, "timestamp_nanos": 123_456_000}
    rest = source(db, offset, **props).poll()
    assert ids(rest) == [3]
    assert source(db, rest[0].source_offset, **props).poll() == []


@pytest.mark.parametrize("has_zone", [False, True])
def test_changed_row_is_read_again_by_timestamp_and_number(db: DatabaseProcess, has_zone: bool):
    db.run(*PEOPLE)
    kind = {"PostgreSQL": "TYPE timestamptz", "MariaDB": "datetime(6) NOT NULL"}[db.title]
    if has_zone:  # MariaDB's timestamp is a moment, its datetime has no zone
        action = {"PostgreSQL": "ALTER", "MariaDB": "MODIFY"}[db.title]
        db.run(f"ALTER TABLE people {action} changed {kind}")
    props = {
        "mode": "timestamp+incrementing",
        "timestamp_column_name": "changed",
        "incrementing_column_name": "id",
        "batch_max_rows": "1",
    }
    task, found = source(db, **props), []
    while records := task.poll():
        found += records
    assert ids(found) == [1, 2, 3]
    # Behind the first of two rows of one moment.
    assert ids(source(db, found[0].source_offset, **props).poll()) == [2]
    db.run("UPDATE people SET name = 'Ada L', changed = now() WHERE id = 1")
    again = source(db, found[-1].source_offset, **props).poll()
    assert [each.value.get("name") for each in again] == ["Ada L"]


def test_first_of_two_timestamps_that_has_a_value_counts(db: DatabaseProcess):
    db.run(
        "CREATE TABLE p (id int primary key, changed timestamp, made date NOT NULL)",
        "INSERT INTO p VALUES (1, '2024-03-01', '2024-01-01'), (2, NULL, '2024-02-01')",
    )
    task = source(db, mode="timestamp", timestamp_column_name="changed,made")
    assert ids(task.poll()) == [2, 1]


def test_delay_leaves_young_rows_for_later(db: DatabaseProcess):
    db.run(*PEOPLE, "INSERT INTO people (name, changed) VALUES ('new', now())")
    props = {"mode": "timestamp", "timestamp_column_name": "changed"}
    task = source(db, **props, timestamp_delay_interval_ms="3600000")
    assert ids(task.poll()) == [1, 2, 3]
    assert task.poll() == []
    db.run("UPDATE people SET changed = now() - interval '59' minute WHERE id = 4")
    assert task.poll() == []
    db.run("UPDATE people SET changed = now() - interval '61' minute WHERE id = 4")
    assert ids(task.poll()) == [4]


def test_initial_timestamp_leaves_older_rows_out(db: DatabaseProcess):
    db.run(*PEOPLE, "INSERT INTO people (name, changed) VALUES ('late', '2024-05-05')")
    props = {"mode": "timestamp", "timestamp_column_name": "changed"}
    assert ids(source(db, **props, timestamp_initial="1704103200124").poll()) == [4]
    assert source(db, **props, timestamp_initial="-1").poll() == []


def test_query_is_read_in_each_mode(db: DatabaseProcess):
    db.run(*PEOPLE)
    query = "SELECT id, upper(name) AS name, changed FROM people WHERE name LIKE '%o' OR id < 3"
    bulk = source(db, mode="bulk", query=query)
    assert [each.value.get("name") for each in bulk.poll()] == ["ADA", None, "BO"]
    assert len(bulk.poll()) == 3
    records = source(
        db,
        mode="timestamp+incrementing",
        query=query,
        timestamp_column_name="changed",
        incrementing_column_name="id",
        batch_max_rows="2",
    ).poll()
    assert ids(records) == [1, 2]
    assert records[0].topic == "db-"
    assert records[0].source_partition == {"query": "query"}
    assert records[1].source_offset == {
        "incrementing": 2, "timestamp": 1704103200123, "timestamp_nanos": 123_456_000
    }  # fmt: skip


def test_query_with_colons_and_percent_signs_is_taken_as_it_is_written(db: DatabaseProcess):
    db.run(*PEOPLE)
    text = "CONCAT(':id', '::x', ' a:=1 %s %% %(p)s')"
    query = f"SELECT {text} AS t FROM people WHERE name LIKE '%da'"
    (found,) = source(db, mode="bulk", query=query).poll()
    assert found.value.get("t") == ":id::x a:=1 %s %% %(p)s"


def test_column_that_is_added_is_taken_up(db: DatabaseProcess):
    db.run("CREATE TABLE p (id int primary key)", "INSERT INTO p VALUES (1)")
    task = source(db, mode="incrementing", incrementing_column_name="id")
    assert task.poll()[0].value.values == [1]
    db.run("ALTER TABLE p ADD COLUMN x text", "INSERT INTO p VALUES (2, 'new')")
    assert task.poll()[0].value.values == [2, "new"]


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("none", ["BYTES", "BYTES", "BYTES"]),
        ("precision_only", ["INT16", "BYTES", "BYTES"]),
        ("best_fit", ["INT16", "FLOAT64", "BYTES"]),
        ("best_fit_eager_double", ["INT16", "FLOAT64", "FLOAT64"]),
    ],
)
def test_numeric_mapping_decides_the_type_of_a_decimal(
    db: DatabaseProcess, mapping: str, expected: list[str]
):
    sign = {"PostgreSQL": "", "MariaDB": " unsigned"}[db.title]
    db.run(f"CREATE TABLE n (a decimal(4), b decimal(9,2){sign}, c decimal(30,2))")
    db.run("INSERT INTO n VALUES (12, 1.5, 2.25)")
    (found,) = source(db, mode="bulk", numeric_mapping=mapping).poll()
    assert [str(field.schema.type) for field in found.value.schema.fields] == expected
    assert [float(each) for each in found.value.values] == [12, 1.5, 2.25]


def test_column_of_the_mode_that_may_be_null_is_refused(db: DatabaseProcess):
    db.run("CREATE TABLE p (id int, at timestamp)", "INSERT INTO p VALUES (NULL, now()), (7, NULL)")
    for props in (
        {"mode": "incrementing", "incrementing_column_name": "id"},
        {"mode": "timestamp", "timestamp_column_name": "at"},
    ):
        with pytest.raises(ConnectError, match=rf"column of {db.schema}\.p may be NULL"):
            source(db, **props)
    task = source(db, mode="incrementing", incrementing_column_name="id", validate_non_null="false")
    assert ids(task.poll()) == [7]


def test_sink_modes_insert_upsert_update_and_delete(db: DatabaseProcess):
    task = sink(db, **UPSERT)
    assert write(task, [record(0, 1, "a"), record(1, 2, None), record(2, 1, "b")], {}) == "1"
    assert db.run("SELECT * FROM t ORDER BY id") == [(1, "b"), (2, None)]
    update = sink(db, name="u", insert_mode="update", pk_mode="record_value", pk_fields="id")
    write(update, [record(0, 2, "set"), record(1, 3, "absent")], {})
    assert db.run("SELECT * FROM t ORDER BY id") == [(1, "b"), (2, "set")]
    delete = sink(db, name="d", pk_mode="record_key", pk_fields="id", delete_enabled="true")
    key = (KEY, s.Struct.of(KEY, {"id": 1}))
    other = s.struct_schema([("name", s.STRING)])
    added = sunk(other, s.Struct.of(other, {"name": "c"}), 1, (s.INT64, 3))
    write(delete, [sunk(None, None, 0, key), added], {})
    assert db.run("SELECT * FROM t ORDER BY id") == [(2, "set"), (3, "c")]


def test_sink_key_of_kafka_is_the_place_of_the_record(db: DatabaseProcess):
    write(sink(db, pk_mode="kafka", insert_mode="upsert"), [record(5, 1, "a")], {})
    assert db.run("SELECT * FROM t") == [("t", 0, 5, 1, "a")]


def test_sink_writes_the_table_of_its_format_and_evolves_it(db: DatabaseProcess):
    db.run("CREATE SCHEMA other")
    task = sink(db, table_name_format="other.k_${topic}", auto_evolve="true")
    write(task, [record(0, 1, "a"), record(1, 2, "b", WIDER)], {})
    assert db.run("SELECT * FROM other.k_t ORDER BY id") == [(1, "a", None), (2, "b", None)]
    with pytest.raises(ConnectError, match="is not the name of a table"):
        write(sink(db, name="n", table_name_format="a.b.${topic}"), [record(0, 1, "a")], {})


def test_sink_batch_that_kafka_did_not_commit_is_not_written_twice(db: DatabaseProcess):
    """Also the first one, for which Kafka has no position at all."""
    first = sink(db)
    first.open({})
    first.put([record(0, 1, "a"), record(1, 1, "a")])
    first.flush({("t", 0): 2})
    first.stop()
    again = sink(db)
    again.open({})
    again.put([record(0, 1, "a"), record(1, 1, "a"), record(2, 2, "b")])
    assert again.flush({("t", 0): 3}) == "2"
    assert db.run("SELECT count(*) FROM t") == [(3,)]


def test_sink_follows_offsets_that_a_user_has_reset(db: DatabaseProcess):
    """After a single batch, and when the first batch after the reset was not committed in Kafka."""
    write(sink(db), [record(0, 1, "a")], {})
    again = sink(db)
    again.open({})
    again.put([record(0, 1, "a")])
    again.flush({("t", 0): 1})
    again.stop()
    assert db.run("SELECT count(*) FROM t") == [(2,)]
    write(sink(db), [record(0, 1, "a"), record(1, 2, "b")], {})
    assert db.run("SELECT count(*) FROM t") == [(3,)]


def test_sink_task_that_was_replaced_within_a_batch_rolls_back(db: DatabaseProcess):
    write(sink(db), [record(0, 1, "a")], {})
    suspended, successor = sink(db), sink(db)
    suspended.open(position(1, "1"))
    suspended.put([record(1, 2, "b")])
    assert write(successor, [record(1, 2, "b"), record(2, 3, "c")], position(1, "1")) == "2"
    with pytest.raises(RetriableError, match="another task of job has written t-0"):
        suspended.flush({("t", 0): 2})
    suspended.close(is_committed=False)
    assert db.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]


def test_sink_task_that_was_replaced_within_its_first_batch_rolls_back(db: DatabaseProcess):
    suspended, successor = sink(db), sink(db)
    suspended.open({})
    write(successor, [record(0, 1, "a")], {})
    suspended.put([record(0, 1, "a")])
    with pytest.raises(RetriableError, match="another task of job has written t-0"):
        suspended.flush({("t", 0): 1})
    suspended.close(is_committed=False)
    assert db.run("SELECT id FROM t") == [(1,)]


def test_sink_tasks_create_and_evolve_a_table_at_the_same_time(db: DatabaseProcess):
    failures: list[Exception] = []
    ready = threading.Barrier(4)

    def run(number: int) -> None:
        task = sink(db, name=f"job-{number}", auto_evolve="true")
        rows = [record(0, number, "a", ROW if number % 2 else WIDER)]
        ready.wait(60)
        attempts = 0
        while True:
            try:
                write(task, rows, {})
            except RetriableError as error:  # a deadlock is resolved by a new attempt
                attempts += 1
                if attempts > 5:
                    failures.append(error)
                    return
                task.close(is_committed=False)
            except Exception as error:
                failures.append(error)
                return
            else:
                return

    threads = [threading.Thread(target=run, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert not failures
    assert db.run("SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,)]


def test_lost_connection_is_a_failure_that_may_pass(db: DatabaseProcess):
    db.run(*PEOPLE)
    task, writer = source(db, mode="bulk", poll_interval_ms="0"), sink(db)
    task.poll()
    writer.open({})
    db.disconnect()
    for call in (task.poll, lambda: writer.put([record(0, 1, "a")])):
        with pytest.raises(RetriableError):
            call()
    writer.close(is_committed=False)
    assert len(source(db, mode="bulk").poll()) == 3


@pytest.mark.parametrize("is_flushed", [False, True])
def test_sink_rows_are_once_when_the_server_is_killed(db: DatabaseProcess, is_flushed: bool):
    """Within a batch that adds a column, and before Kafka has committed it."""
    write(sink(db), [record(0, 1, "a")], {})
    task = sink(db, auto_evolve="true")
    batch = [record(1, 2, "b"), record(2, 3, "c", WIDER)]
    task.open(position(1, "1"))
    task.put(batch)
    if is_flushed:
        task.flush({("t", 0): 3})
    db.kill()
    db.start()
    task.close(is_committed=False)
    write(sink(db, auto_evolve="true"), batch, position(1, "1"))
    assert db.run("SELECT id, name FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
