"""`reading`: the size of a read; the first batch is complete, the last one may be cut off."""

from pathlib import Path

import pytest

from barnabas.testing.batches import batch
from tests.log.logs import append, new_log, open_volume


@pytest.mark.parametrize(
    ("max_bytes", "min_one_message", "expected"),
    [
        (0, True, 1.0),
        (0, False, 0.0),
        (0.5, True, 1.0),
        (0.5, False, 0.0),
        (1.0, False, 1.0),
        (1.5, False, 1.5),
        (9.0, False, 2.0),
    ],
)
def test_read_returns_the_first_batch_whole_or_nothing(
    tmp_path: Path, max_bytes: float, min_one_message: bool, expected: float
) -> None:
    log = new_log(open_volume(tmp_path / "data"))
    size = len(batch(b"value"))
    append(log, b"value")
    append(log, b"value")
    read = log.read(0, int(max_bytes * size), upper_bound=2, min_one_message=min_one_message)
    assert len(read) == int(expected * size)
    log.volume.unlock()
