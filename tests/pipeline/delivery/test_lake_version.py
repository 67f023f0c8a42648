"""A changed lake sink is compared with what it has written."""

import json
from typing import Any

import pytest

from barnabas.pipeline.connect.connectors.spark_sink import SparkSinkSettings
from barnabas.pipeline.delivery.lake import lake_version
from barnabas.pipeline.delivery.plan.task_failures import JobStartError

PROPS = {"name": "lake", "spark.format": "parquet", "path": "/data/lake"}
FILE = "/data/lake/_checkpoints/lake/barnabas-version.json"
STRUCT = {"type": "struct", "fields": [{"name": "a", "type": "long"}]}


class Files:
    """Files in memory, of a job that has planned a batch."""

    def __init__(self) -> None:
        self.newest_batch = 3
        self.done = 3
        self.in_files = -1
        self.texts: dict[str, str] = {}

    def newest(self, directory: str) -> int:
        logs = {
            "offsets": self.newest_batch,
            "commits": self.done,
            "_spark_metadata": self.in_files,
        }
        return logs[directory.rpartition("/")[2]]

    def read(self, file: str) -> str | None:
        return self.texts.get(file)

    def write(self, file: str, text: str) -> None:
        self.texts[file] = text


def check(
    files: Files,
    columns: dict[str, Any] | None = None,
    *,
    has_letters: bool = True,
    **props: str,
) -> None:
    properties = {**PROPS, **{name.replace("__", "."): value for name, value in props.items()}}
    types = columns or {"id": "long", "n": STRUCT}
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    lake_version.check(
        files,
        SparkSinkSettings.of(properties),
        {"type": "struct", "fields": fields},
        properties,
        lambda: has_letters,
    )


def written(**props: str) -> Files:
    files = Files()
    check(files, **props)
    return files


@pytest.mark.parametrize(
    ("props", "difference"),
    [
        ({"spark__format": "orc"}, "spark.format is 'parquet' in the state and 'orc' in the query"),
        ({"partition__by": "id"}, "partition.by is '' in the state and 'id' in the query"),
        (
            {"path": "/data/other"},
            "path is '/data/lake' in the state and '/data/other' in the query",
        ),
    ],
)
def test_changed_files_are_refused(props: dict[str, str], difference: str) -> None:
    place = {"checkpoint__location": "/data/checkpoint"}
    files = written(**place)
    before = dict(files.texts)
    with pytest.raises(JobStartError, match=difference) as caught:
        check(files, **place, **props)
    assert caught.value.failure.is_permanent
    assert caught.value.failure.message.endswith(
        "bring the earlier configuration back, or create a connector with another name and path"
    )
    assert files.texts == before
    check(files, **place)


def test_properties_that_files_do_not_depend_on_may_change() -> None:
    check(written(), flush__size="5", rotate__interval__ms="500", tasks__max="3")


def test_type_of_a_column_of_typed_files_stays() -> None:
    files = written()
    check(files, {"id": "long", "more": "string"})
    with pytest.raises(JobStartError, match="column more is 'string' in the state and 'double'"):
        check(files, {"more": "double"})
    with pytest.raises(JobStartError, match=r"column n is '{.*long.*}' in the state and 'string'"):
        check(files, {"n": "string"})
    check(files, {"more": "string"})


def test_type_of_a_column_of_text_files_may_change() -> None:
    for kind in ("csv", "json"):
        files = Files()
        check(files, {"id": "long"}, spark__format=kind)
        check(files, {"id": "string"}, spark__format=kind)


def test_delta_table_may_be_moved_with_its_checkpoint() -> None:
    files = written(spark__format="delta")
    moved = files.texts.pop(FILE)
    files.texts[FILE.replace("/data/lake", "/data/moved")] = moved
    check(files, spark__format="delta", path="/data/moved")


def test_files_that_name_their_paths_may_not_be_moved() -> None:
    files = written()
    moved = files.texts.pop(FILE)
    files.texts[FILE.replace("/data/lake", "/data/moved")] = moved
    with pytest.raises(JobStartError, match="path is '/data/lake'"):
        check(files, path="/data/moved")
    place = {"checkpoint__location": "/data/checkpoint"}
    files = written(spark__format="delta", **place)
    with pytest.raises(JobStartError, match="path is '/data/lake'"):
        check(files, spark__format="delta", path="/data/moved", **place)


def interrupted(**props: str) -> Files:
    """Return the files of a job whose newest batch is not committed."""
    files = written(**props)
    files.newest_batch = 4
    return files


@pytest.mark.parametrize(
    "props",
    [
        {"value__converter": "JsonConverter"},
        {"value__converter__schemas__enable": "false"},
        {"header__converter": "StringConverter"},
        {"transforms": "cast"},
        {"transforms__cast__spec": "id:int64"},
        {"predicates__null__type": "RecordIsTombstone"},
        {"schema": "id BIGINT"},
        {"behavior__on__null__values": "ignore"},
    ],
)
def test_conversions_that_change_within_a_batch_with_letters_are_refused(
    props: dict[str, str],
) -> None:
    files = interrupted()
    before = dict(files.texts)
    with pytest.raises(JobStartError, match="batch 4 is not complete") as caught:
        check(files, **props)
    assert caught.value.failure.is_permanent
    assert files.texts == before
    check(files)
    files.done = 4
    check(files, **props)
    files.newest_batch = 5
    with pytest.raises(JobStartError, match="batch 5 is not complete"):
        check(files)


def test_conversions_may_change_within_a_batch_without_letters() -> None:
    files = interrupted()
    check(files, transforms="cast", has_letters=False)
    with pytest.raises(JobStartError, match="batch 4 is not complete"):
        check(files)


def test_conversions_may_change_where_spark_skips_the_batch() -> None:
    files = interrupted()
    files.in_files = 4
    check(files, transforms="cast")


def test_properties_that_conversions_do_not_depend_on_may_change_within_a_batch() -> None:
    check(
        interrupted(value__converter__schema__registry__password="old"),
        value__converter__schema__registry__password="new",
        errors__log__enable="true",
        tasks__max="3",
        spark__option__compression="none",
    )


def test_conversions_that_an_earlier_release_did_not_keep_may_be_any() -> None:
    files = interrupted(transforms="cast")
    stored = json.loads(files.texts[FILE])
    assert stored["digest"]
    files.texts[FILE] = json.dumps({**stored, "digest": ""})
    check(files)


def test_job_that_has_planned_no_batch_may_change() -> None:
    files = written()
    files.newest_batch = -1
    check(files, spark__format="json")
    assert json.loads(files.texts[FILE])["parts"]["spark.format"] == "json"


@pytest.mark.parametrize("text", [None, "{}", "nonsense", '{"format": 9}'])
def test_version_of_another_release_is_replaced(text: str | None) -> None:
    files = Files()
    if text is not None:
        files.texts[FILE] = text
    check(files)
    assert json.loads(files.texts[FILE])["parts"]["spark.format"] == "parquet"
