"""Syncs run in a thread beside whatever the loop does to the same log."""

import sys
import threading
import time
from pathlib import Path

from barnabas.log import FileCache, LogConfig, LogManager, Volume
from tests.log.batches import NOW_MS, TOPIC_ID, append, read_values, reopen

DURATION_S = 1.0


def test_a_recovery_point_never_lies_behind_what_was_cut_meanwhile(tmp_path: Path) -> None:
    volume = Volume(tmp_path / "data", FileCache(5))
    volume.lock()
    manager = LogManager([volume], volume, LogConfig())
    log = manager.create("t", TOPIC_ID, 0, LogConfig(segment_bytes=2000, file_delete_delay_ms=0))
    stopping, errors = threading.Event(), list[BaseException]()

    def sync() -> None:
        while not stopping.is_set():
            try:
                log.flush()
                log.flush_rolled()
                manager.checkpoint()
                manager.checkpoint_log_start_offsets()
            except BaseException as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=sync) for _ in range(2)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    deadline, number = time.monotonic() + DURATION_S, 0
    while time.monotonic() < deadline:
        number += 1
        append(log, b"%d" % number)
        if number % 50 == 0:
            end = log.log_end_offset - 7
            log.truncate_to(end)
            assert log.recovery_point <= end
        if number % 101 == 0:
            log.delete_records(log.log_end_offset - 60)
            log.apply_retention(NOW_MS)
        if number % 331 == 0:
            log.truncate_fully_and_start_at(log.log_end_offset + 5)
        if number % 211 == 0:
            manager.create(f"gone-{number}", TOPIC_ID, 0, LogConfig())
            manager.delete(f"gone-{number}", 0)
        assert log.recovery_point <= log.log_end_offset
    stopping.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(switch)
    assert errors == []
    assert volume.failure is None
    assert number > 300
    assert read_values(reopen(log, recover=True)) == read_values(log)
    manager.close(clean=False)
