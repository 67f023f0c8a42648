"""The cost of single calls on a log, without a server: `python -m bench.log_calls [--profile]`.

Figures are µs of one process's time, the best of five rounds, on a log of one partition in a
temporary directory.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from barnabas.log import FileCache, LogConfig, PartitionLog, Volume
from barnabas.protocol.batches.batch_building import build_batch
from barnabas.protocol.batches.record_decoding import Record
from barnabas.protocol.types import Uuid

ROUNDS, CALLS = 5, 4000
NOW_MS = 1_800_000_000_000


def batch(size: int, sequence: int = -1) -> bytearray:
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence}
    record = Record(0, NOW_MS, None, b"x" * size)
    return build_batch([record], **(producer if sequence >= 0 else {}))


def new_log(path: Path, topic: str) -> PartitionLog:
    volume = Volume(path / topic, FileCache(100))
    volume.lock()
    log = PartitionLog(volume, topic, 0, LogConfig(timestamp_after_max_ms=1 << 60))
    log.create(Uuid(b"1" * 16))
    return log


def best_us(call: Callable[[int], object]) -> float:
    """Time `call(number)` for rising numbers; return the best round's µs per call."""
    best = float("inf")
    for turn in range(ROUNDS):
        numbers = range(turn * CALLS, (turn + 1) * CALLS)
        began = time.perf_counter()
        for number in numbers:
            call(number)
        best = min(best, time.perf_counter() - began)
    return best / CALLS * 1e6


def rows(path: Path) -> list[tuple[str, float]]:
    plain, idempotent, large = (new_log(path, name) for name in ("plain", "idempotent", "large"))
    small, big = batch(100), batch(16_000)
    sequenced = [batch(100, number) for number in range(ROUNDS * CALLS)]

    def append(log: PartitionLog, data: bytearray) -> None:
        data[:8] = bytes(8)  # a leader wrote its offset there
        info = log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
        log.advance_high_watermark(info.last_offset + 1)

    found = [
        ("append, 100 B", best_us(lambda _: append(plain, small))),
        ("append, 100 B, idempotent", best_us(lambda n: append(idempotent, sequenced[n]))),
        ("append, 16 kB", best_us(lambda _: append(large, big))),
    ]
    end = plain.log_end_offset

    def tail(_: int) -> None:
        append(plain, small)
        plain.read(plain.log_end_offset - 1, 1 << 20, upper_bound=plain.log_end_offset)

    step = 7919
    found += [
        ("append, and read of what was appended", best_us(tail)),
        (
            "read of 64 kB at random",
            best_us(lambda n: plain.read(n * step % end, 65_536, upper_bound=end)),
        ),
        ("offset for a timestamp", best_us(lambda n: plain.offset_for_timestamp(NOW_MS))),
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", action="store_true", help="show where appends spend it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as path:
        if arguments.profile:
            profile = cProfile.Profile()
            profile.enable()
            rows(Path(path))
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(20)
            return
        for what, microseconds in rows(Path(path)):
            print(f"{what:40} {microseconds:8.1f} µs")


if __name__ == "__main__":
    main()
