"""The version of a lake sink: what its files or its table depend on, kept beside the checkpoint.

The files of one directory have one format, one partitioning and one type for each column: a reader
refuses a mixture of them, or takes the values of one for the other's. So a job that is changed is
compared with the version that wrote the files. Columns may be added and left out.

The rows of a batch become visible at once, but each task commits its dead letters before that. A
batch that is repeated leaves out the letters below the committed offset. With other conversions, a
record there that fails only now would be lost, and one that fits only now would be a row and a dead
letter. So a batch with dead letters is completed by the conversions that began it. A batch that the
files or the table have is complete, also when Spark has not noted that yet.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from barnabas.pipeline.connect.connectors.spark_sink import (
    DELTA,
    FILE_FORMATS,
    SparkSinkSettings,
)
from barnabas.pipeline.connect.secret_masking import is_secret
from barnabas.pipeline.delivery.micro_batches import query_version
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import VERSION_FILE
from barnabas.pipeline.delivery.micro_batches.query_version import QueryVersion
from barnabas.pipeline.delivery.plan.task_failures import refused

REMEDY: Final = "create a connector with another name and path"
_COLUMN: Final = "column "
_TYPED_FORMATS: Final = ("parquet", "orc")
"""The formats whose files have types. Tables compare the types themselves."""
_CONVERSIONS: Final = (
    *("key.converter", "value.converter", "header.converter"),
    *("transforms", "predicates", "schema", "behavior.on.null.values"),
)
"""The properties that decide whether a record is a row or a dead letter."""
_FILE_LOG: Final = "_spark_metadata"


class SmallFiles(Protocol):
    """The part of `HadoopFiles` that is used here."""

    def newest(self, directory: str) -> int:
        """Return the largest number in a directory of Spark's logs, -1 without one."""
        ...

    def read(self, file: str) -> str | None:
        """Return the text of a file, None when it does not exist."""
        ...

    def write(self, file: str, text: str) -> None:
        """Write a text to a file."""
        ...


def file_log(settings: SparkSinkSettings) -> str:
    """Return the directory of Spark's log of the files."""
    return f"{settings.path}/{_FILE_LOG}"


def check(
    files: SmallFiles,
    settings: SparkSinkSettings,
    columns: Mapping[str, Any],
    properties: Mapping[str, str],
    has_letters: Callable[[], bool],
) -> None:
    """Raise JobStartError when a job does not fit what it has written; else keep its version.

    `has_letters` returns True when dead letters of the newest batch are written.
    """
    file = f"{settings.checkpoint}/{VERSION_FILE}"
    has_begun = files.newest(f"{settings.checkpoint}/offsets") >= 0
    content = files.read(file) if has_begun else None
    stored = None if content is None else query_version.decode(content.encode())
    own = _parts(settings, columns)
    before: Mapping[str, str] = {} if stored is None else stored.parts
    known = {name: text for name, text in before.items() if name.startswith(_COLUMN)}
    added = {name: text for name, text in own.items() if name.startswith(_COLUMN)}
    version = query_version.of_properties({**known, **own}, _conversions(properties))
    if stored is not None:
        all_before = QueryVersion({**added, **before}, stored.digest, stored.spark)
        if found := query_version.differences(all_before, version):
            raise refused(
                f"the job does not fit what it has written to {settings.path}: {'; '.join(found)}; "
                f"bring the earlier configuration back, or {REMEDY}"
            )
        # A release that did not compare conversions has left no digest.
        is_other = stored.digest not in ("", version.digest)
        if is_other and _is_interrupted(files, settings) and has_letters():
            raise refused(
                f"batch {files.newest(f'{settings.checkpoint}/offsets')} is not complete, and some "
                "of its dead letters were written with other converters, transforms, predicates or "
                "columns: start the job with the earlier configuration until the batch is "
                "complete, and change it then"
            )
    if stored != version:
        files.write(file, version.encode().decode())


def _is_interrupted(files: SmallFiles, settings: SparkSinkSettings) -> bool:
    """True when the newest batch will be repeated: Spark skips one that the files have.

    Those of a table are marked as done (see `table_batches`).
    """
    done = files.newest(f"{settings.checkpoint}/commits")
    if settings.format in FILE_FORMATS:
        done = max(done, files.newest(file_log(settings)))
    return files.newest(f"{settings.checkpoint}/offsets") > done


def _conversions(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of conversions, without secrets, which change nothing in them."""
    return {
        name: value
        for name, value in properties.items()
        if not is_secret(name)
        and any(name == each or name.startswith(f"{each}.") for each in _CONVERSIONS)
    }


def _parts(settings: SparkSinkSettings, columns: Mapping[str, Any]) -> dict[str, str]:
    parts = {
        "spark.format": settings.format,
        "partition.by": ", ".join(settings.partition_by),
    }
    # A Delta table names its files relative to itself: it may be moved with its checkpoint.
    if settings.format != DELTA or not settings.checkpoint.startswith(f"{settings.path}/"):
        parts["path"] = settings.path
    if settings.format in _TYPED_FORMATS:
        parts |= {f"{_COLUMN}{each['name']}": _shown(each["type"]) for each in columns["fields"]}
    return parts


def _shown(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind, sort_keys=True)
