"""Columns of an Iceberg table, and the batches that its snapshots name."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from barnabas.pipeline.connect.connectors.spark_sink import SparkSinkSettings
from barnabas.pipeline.data.connect_errors import DataError
from barnabas.pipeline.delivery import iceberg_table
from barnabas.pipeline.delivery.iceberg_table import widened
from barnabas.pipeline.delivery.task_failures import JobStartError

SETTINGS = SparkSinkSettings.of(
    {"name": "lake", "topics": "t", "spark.format": "iceberg", "path": "/data/lake"}
)


def columns(**kinds: Any) -> dict[str, Any]:
    fields = [{"name": n, "type": k, "nullable": True, "metadata": {}} for n, k in kinds.items()]
    return {"type": "struct", "fields": fields}


@attrs.define
class Files:
    """A checkpoint in a directory."""

    root: Path

    def newest(self, directory: str) -> int:
        path = Path(directory)
        return max((int(each.name) for each in path.iterdir()), default=-1)

    def read(self, file: str) -> str | None:
        return Path(file).read_text() if Path(file).exists() else None

    def write(self, file: str, text: str) -> None:
        Path(file).write_text(text)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    return tmp_path


def mark_done(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, *, planned: int, done: int, written: int
) -> list[str]:
    """Return the commits after a start with a table that ends at the batch `written`."""
    for number in range(planned + 1):
        (checkpoint / "offsets" / str(number)).write_text("v1")
    for number in range(done + 1):
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")
    monkeypatch.setattr(iceberg_table, "_newest_batch", lambda session, path, query: written)
    settings = attrs.evolve(SETTINGS, checkpoint=str(checkpoint))
    iceberg_table._mark_done(None, Files(checkpoint), settings)  # type: ignore[arg-type]
    return sorted(each.name for each in (checkpoint / "commits").iterdir())


def test_columns_that_iceberg_lacks_are_widened() -> None:
    kind = columns(
        a="byte",
        b={"type": "array", "elementType": "short", "containsNull": True},
        c={"type": "map", "keyType": "string", "valueType": columns(d="short")},
        e="long",
    )
    found = {each["name"]: each["type"] for each in widened(kind)["fields"]}
    assert found["a"] == "integer"
    assert found["b"] == {"type": "array", "elementType": "integer", "containsNull": True}
    assert found["c"]["valueType"]["fields"][0]["type"] == "integer"
    assert found["e"] == "long"


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (columns(id="long"), "column city string, the table /t has no column city"),
        (columns(id="integer", city="string"), "column id long, the table /t has id integer"),
        (columns(id="long", city="string", more="date"), "the column more, which the rows lack"),
    ],
)
def test_table_with_other_columns_is_refused(there: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        iceberg_table._check_columns("/t", columns(id="long", city="string"), there)


def test_table_with_the_columns_in_another_order_is_taken() -> None:
    noted = columns(city="string", id="long")
    noted["fields"][0]["metadata"] = {"comment": "x"}
    iceberg_table._check_columns("/t", columns(id="long", city="string"), noted)
    noted["fields"][0]["nullable"] = False
    with pytest.raises(DataError, match="the column city of the table /t takes no nulls"):
        iceberg_table._check_columns("/t", columns(id="long", city="string"), noted)


@pytest.mark.parametrize(
    ("planned", "done", "written", "commits"),
    [
        (3, 2, 3, ["0", "1", "2", "3"]),  # killed between the table's commit and Spark's
        (3, 2, 2, ["0", "1", "2"]),  # killed before the table's commit
        (3, 3, 3, ["0", "1", "2", "3"]),
        (0, -1, 0, ["0"]),  # killed in the first batch
        (0, -1, -1, []),
    ],
)
def test_batch_of_the_table_is_marked_as_done(
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    planned: int,
    done: int,
    written: int,
    commits: list[str],
) -> None:
    found = mark_done(checkpoint, monkeypatch, planned=planned, done=done, written=written)
    assert found == commits
    if commits:
        assert (checkpoint / "commits" / commits[-1]).read_text().startswith("v1\n{")


def test_checkpoint_behind_the_table_is_refused(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        JobStartError, match=r"rolled back: .* ends at batch 5, the checkpoint at 3"
    ):
        mark_done(checkpoint, monkeypatch, planned=3, done=3, written=5)


def test_new_checkpoint_asks_no_table(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkpoint / "metadata").unlink()
    assert mark_done(checkpoint, monkeypatch, planned=-1, done=-1, written=9) == []
