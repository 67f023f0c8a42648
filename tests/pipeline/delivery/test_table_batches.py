"""The batches that a table has are marked as done in the checkpoint."""

import json
from pathlib import Path

import attrs
import pytest

from barnabas.pipeline.connect.connectors.spark_sink import SparkSinkSettings
from barnabas.pipeline.delivery.lake import table_batches
from barnabas.pipeline.delivery.plan.task_failures import JobStartError

SETTINGS = SparkSinkSettings.of(
    {"name": "lake", "topics": "t", "spark.format": "iceberg", "path": "/data/lake"}
)


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
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    planned: int,
    done: int,
    written: int,
    kind: str = "iceberg",
) -> list[str]:
    """Return the commits after a start with a table that ends at the batch `written`."""
    for number in range(planned + 1):
        (checkpoint / "offsets" / str(number)).write_text("v1")
    for number in range(done + 1):
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")
    monkeypatch.setattr(table_batches, "newest_batch", lambda session, settings, query: written)
    settings = attrs.evolve(SETTINGS, format=kind, checkpoint=str(checkpoint))
    table_batches.mark_done(None, Files(checkpoint), settings)  # type: ignore[arg-type]
    return sorted(each.name for each in (checkpoint / "commits").iterdir())


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


def test_new_checkpoint_is_not_marked(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkpoint / "metadata").unlink()
    assert mark_done(checkpoint, monkeypatch, planned=-1, done=-1, written=9) == []


def test_files_without_a_table_are_not_marked(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = mark_done(checkpoint, monkeypatch, planned=0, done=-1, written=0, kind="parquet")
    assert found == []
