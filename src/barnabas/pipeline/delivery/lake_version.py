"""The version of a lake sink: what its files or its table depend on, kept beside the checkpoint.

The files of one directory have one format, one partitioning and one type for each column: a reader
refuses a mixture of them, or takes the values of one for the other's. So a job that is changed is
compared with the version that wrote the files. Columns may be added and left out.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from barnabas.pipeline.connect.connectors.spark_sink import DELTA, SparkSinkSettings
from barnabas.pipeline.delivery import query_version
from barnabas.pipeline.delivery.checkpoint_files import VERSION_FILE
from barnabas.pipeline.delivery.query_version import QueryVersion
from barnabas.pipeline.delivery.task_failures import refused

REMEDY: Final = "create a connector with another name and path"
_COLUMN: Final = "column "
_TYPED_FORMATS: Final = ("parquet", "orc")
"""The formats whose files have types. Tables compare the types themselves."""


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


def check(files: SmallFiles, settings: SparkSinkSettings, columns: Mapping[str, Any]) -> None:
    """Raise JobStartError when a job does not fit what it has written; else keep its version."""
    file = f"{settings.checkpoint}/{VERSION_FILE}"
    has_begun = files.newest(f"{settings.checkpoint}/offsets") >= 0
    content = files.read(file) if has_begun else None
    stored = None if content is None else query_version.decode(content.encode())
    own = _parts(settings, columns)
    before: Mapping[str, str] = {} if stored is None else stored.parts
    known = {name: text for name, text in before.items() if name.startswith(_COLUMN)}
    added = {name: text for name, text in own.items() if name.startswith(_COLUMN)}
    version = _version({**known, **own})
    if stored is not None and (
        found := query_version.differences(_version({**added, **before}), version)
    ):
        raise refused(
            f"the job does not fit what it has written to {settings.path}: {'; '.join(found)}; "
            f"bring the earlier configuration back, or {REMEDY}"
        )
    if stored != version:
        files.write(file, version.encode().decode())


def _version(parts: Mapping[str, str]) -> QueryVersion:
    return QueryVersion(parts, digest="", spark="")


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
