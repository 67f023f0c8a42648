"""Three ways to keep state by key in Spark: `python -m bench.stream_state --keys 100000 5000000`.

Each way counts records by key in a streaming query, on the session that our pipelines use:

- `native`: Spark's own aggregation, in the JVM;
- `buckets-N`: a kernel of `barnabas.streams`, where the keys of a bucket are one blob of Python;
- `per key`: `transformWithStateInPandas`, a call of Python and a value of Spark for each key.

A query gets four micro-batches: one record for each key, for 1 % of the keys twice, for each key
again. Then another process continues from its checkpoint with 1 %. The table shows the seconds of
each micro-batch, the largest memory of the JVM and its Python workers, and the state's bytes.

Above ten million keys, which only buckets are measured with, the state is loaded by rows that have
many keys each, and no micro-batch has all keys. A process that continues from it gets 1 % of the
keys twice, then one key in 50,000: the first of these is the micro-batch after a restart.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from barnabas.pipeline.spark.session import SessionSettings, SparkProcess
from barnabas.pipeline.streams.kernels.bucketed_query import bucketed
from barnabas.pipeline.streams.kernels.stream_aggregates import Aggregation, StreamAggregate
from bench import state_loading
from bench.servers import children, resident_bytes

_SHARE = 0.01
_PHASES = (("fill", "share-1", "share-2", "all"), ("share-3",))
_PHASES_LARGE = (("load-1", "load-2"), ("share-3", "share-1", "few"))
_LARGE = 10_000_000
_FEW = 1 / 50_000
_SAMPLE_S = 0.2
_SCHEMA = "`key` binary, `value` binary, `timestamp_ms` bigint"
_PER_KEY_MAX = 200_000
_DRIVER_MEMORY = "4g"


@attrs.frozen
class Measured:
    """The figures of one way: seconds of micro-batches, bytes of memory and of the state."""

    batches_s: dict[str, float]
    memory: int
    """The largest of the process that gets 1 % of the keys, or of both."""
    state: int


def native(rows: Any) -> Any:
    """Return the counts of Spark's own aggregation."""
    return rows.groupBy("key").count()


def buckets(number: int, *, is_loading: bool = False) -> Callable[[Any], Any]:
    """Return the query with a kernel on this number of buckets."""
    count = Aggregation(lambda key, value, count: b"%d" % (int(count) + 1), lambda: b"0")
    kernel = (state_loading.Loading if is_loading else StreamAggregate)(count)
    return lambda rows: bucketed(rows, kernel, buckets=number)


def per_key(rows: Any) -> Any:
    """Return the counts of a stateful processor, whose state is a value for each key."""
    import pandas
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", "n bigint")

        def handleInputRows(  # noqa: N802
            self,
            key: Any,
            rows: Iterator[Any],
            timerValues: Any,  # noqa: N803
        ) -> Iterator[Any]:
            before = self._count.get()[0] if self._count.exists() else 0
            count = before + sum(map(len, rows))
            self._count.update((count,))
            yield pandas.DataFrame({"key": [key[0]], "count": [count]})

        def close(self) -> None:
            pass

    return rows.groupBy("key").transformWithStateInPandas(
        statefulProcessor=Counter(),
        outputStructType="`key` binary, `count` bigint",
        outputMode="update",
        timeMode="none",
    )


def buckets_of(name: str) -> int | None:
    """Return the number of buckets of a way, None when it has none."""
    number = name.removeprefix("buckets-")
    return None if number == name else int(number)


def way(name: str, file: str) -> Callable[[Any], Any]:
    """Return the query of a way. Raises ValueError for an unknown one."""
    if (number := buckets_of(name)) is not None:
        return buckets(number, is_loading=file.startswith("load"))
    found = {"native": native, "per-key": per_key}.get(name)
    if found is None:
        raise ValueError(f"unknown way {name}: use native, per-key or buckets-N")
    return found


def write_input(session: Any, directory: Path, keys: int, number_of_buckets: int | None) -> None:
    """Write a file for each micro-batch, with one record for each of its keys."""
    staging = directory / "staging"
    staging.mkdir()
    shares = {"share-1": _SHARE, "share-2": _SHARE, "share-3": _SHARE, "few": _FEW}
    for number, name in enumerate(name for phase in phases(keys) for name in phase):
        if name.startswith("load"):
            first, end = (0, keys // 2) if name == "load-1" else (keys // 2, keys)
            target = staging / f"{name}.parquet"
            state_loading.write_keys(target, first, end - first, number_of_buckets or 1)
            continue
        target = directory / name
        ids = session.range(keys)
        if name in shares:
            ids = ids.where(f"rand({number}) < {shares[name]}")
        rows = ids.selectExpr(
            "cast(concat('user-', lpad(id, 8, '0')) AS binary) AS key",
            "cast('1' AS binary) AS value",
            "cast(0 AS bigint) AS timestamp_ms",
        )
        rows.coalesce(1).write.parquet(str(target))
        (part,) = target.glob("*.parquet")
        part.rename(staging / f"{name}.parquet")


def phases(keys: int) -> Sequence[Sequence[str]]:
    """Return the files of each process, which are its micro-batches."""
    return _PHASES if keys <= _LARGE else _PHASES_LARGE


def run_query(session: Any, directory: Path, name: str, files: Sequence[str]) -> dict[str, float]:
    """Run the query of a way, with a micro-batch for each file; return the seconds of each."""
    source = directory / f"input-{name}"
    source.mkdir(exist_ok=True)
    for file in files:  # Spark takes the oldest first
        (source / f"{file}.parquet").hardlink_to(directory / "staging" / f"{file}.parquet")
    rows = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    mode = "append" if name.startswith("buckets") else "update"
    query = (
        way(name, files[0])(rows)
        .writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(directory / f"checkpoint-{name}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [each for each in query.recentProgress if each.numInputRows]
    return {file: each.batchDuration / 1000 for file, each in zip(files, batches, strict=True)}


class MemoryWatch:
    """The largest memory of this process's children, sampled."""

    def __init__(self) -> None:
        self.largest = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        own = Path("/proc/self").resolve().name
        while not self._ended.wait(_SAMPLE_S):
            with suppress(OSError):  # a process has ended meanwhile
                self.largest = max(self.largest, sum(map(resident_bytes, children(int(own)))))


def child(directory: Path, name: str, files: Sequence[str], keys: int) -> int:
    """Run the files of a phase in this process, and print the figures as JSON."""
    settings = SessionSettings(directory / "work", driver_memory=_DRIVER_MEMORY)
    started = time.monotonic()
    process = SparkProcess.start(settings)
    ready_s = time.monotonic() - started
    try:
        if not (directory / "staging").exists():
            write_input(process.session, directory, keys, buckets_of(name))
        with MemoryWatch() as memory:
            batches_s = run_query(process.session, directory, name, files)
    finally:
        process.stop()
    print(json.dumps({"batches_s": batches_s, "memory": memory.largest, "ready_s": ready_s}))
    return 0


def measure(directory: Path, name: str, keys: int) -> Measured:
    """Run both phases of a way, each in a new process."""
    found: list[Any] = []
    for files in phases(keys):
        arguments = ["--child", str(directory), name, *files, "--keys", str(keys)]
        done = subprocess.run(
            [sys.executable, "-m", "bench.stream_state", *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    checkpoint = directory / f"checkpoint-{name}" / "state"
    return Measured(
        {file: seconds for phase in found for file, seconds in phase["batches_s"].items()},
        max(phase["memory"] for phase in found if "share-1" in phase["batches_s"]),
        sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file()),
    )


def row(keys: int, name: str, found: Measured) -> str:
    """Return a row of the table."""
    shares = [found.batches_s[each] for each in ("share-1", "share-2") if each in found.batches_s]
    seconds = {"share": min(shares), **found.batches_s}
    shown = (seconds.get(each) for each in ("few", "share", "all", "share-3"))
    cells = [f"{keys:,}", name, *("" if each is None else f"{each:.1f}" for each in shown)]
    cells += [f"{found.memory / 1e9:.2f}", f"{found.state / 1e6:,.1f}"]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.stream_state")
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 5_000_000, 50_000_000])
    parser.add_argument("--ways", nargs="+", default=["native", "buckets-256", "per-key"])
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        directory, name, *files = given.child
        return child(Path(directory), name, files, given.keys[0])
    print("| keys | way | few s | 1 % s | 100 % s | 1 % after a restart s | GB | state MB |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for keys in given.keys:
        for name in given.ways:
            with tempfile.TemporaryDirectory(prefix="barnabas-state-") as scratch:
                if name == "per-key" and keys > _PER_KEY_MAX:
                    print(f"{name} is left out above {_PER_KEY_MAX:,} keys", file=sys.stderr)
                    continue
                if buckets_of(name) is None and keys > _LARGE:
                    print(f"{name} is left out above {_LARGE:,} keys", file=sys.stderr)
                    continue
                print(row(keys, name, measure(Path(scratch), name, keys)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
