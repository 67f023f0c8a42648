"""A Python data source of Spark: numbers up to a limit, which a file has."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

PARTITIONS = 2


class Numbers(InputPartition):
    """Every PARTITIONS-th number of a range."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(None)
        self.first = first
        self.last = last


class NumberSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "id BIGINT, city STRING"

    def streamReader(self, schema: Any) -> "NumberReader":  # noqa: N802 (PySpark's name)
        return NumberReader(Path(self.options["limit"]))


class NumberReader(DataSourceStreamReader):
    def __init__(self, limit: Path) -> None:
        self._limit = limit

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"next": int(self._limit.read_text())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Numbers]:
        return [Numbers(start["next"] + index, end["next"]) for index in range(PARTITIONS)]

    def read(self, partition: Numbers) -> Iterator[tuple[int, str]]:
        for number in range(partition.first, partition.last, PARTITIONS):
            yield number, f"c{number % 3}"
