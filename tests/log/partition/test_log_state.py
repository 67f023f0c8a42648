"""`LogState`: every change keeps the offsets in order, and no other module assigns the state."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.log import LogManager, PartitionLog
from barnabas.log.partition import log_state
from barnabas.log.partition.log_state import InvalidLogStateError, LogState
from barnabas.log.segment.log_segment import Segment
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.log.logs import append, new_log, open_volume, read_values

SOURCE = Path(log_state.__file__).parents[2]
OWNERS = {"log_state.py", "partition_log.py"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    """A log with offsets 2 to 10 and a high watermark of 8."""
    log = new_log(open_volume(tmp_path / "data"))
    for number in range(10):
        append(log, b"%d" % number)
    log.advance_log_start(2)
    log.advance_high_watermark(8)
    yield log
    log.volume.unlock()


def offsets(log: PartitionLog) -> tuple[int, int, int, int]:
    return log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.advance_high_watermark(11),
        lambda log: log.advance_high_watermark(1),
        lambda log: log.advance_log_start(9),
        lambda log: log.advance_log_end(10),
        lambda log: log.advance_log_end(3),
        lambda log: log.cut_log_end(11),
        lambda log: log.add_segment(Segment(log.directory, 0, log.volume.files)),
        lambda log: log.restore_checkpoints(high_watermark=3),
    ],
)
def test_change_against_the_order_fails_the_log_and_changes_nothing(
    log: PartitionLog, change: Callable[[PartitionLog], object], caplog: pytest.LogCaptureFixture
) -> None:
    before = offsets(log), list(log.segments)
    with pytest.raises(InvalidLogStateError) as raised:
        change(log)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (offsets(log), log.segments) == before
    assert f"log failed by an internal error log={log.directory}" in caplog.text


def test_failed_log_refuses_each_operation_and_its_volume_stays_online(log: PartitionLog) -> None:
    other = new_log(log.volume, topic="other")
    with pytest.raises(InvalidLogStateError) as raised:
        log.advance_high_watermark(11)
    for operation in (lambda: append(log, b"x"), lambda: read_values(log), log.flush):
        with pytest.raises(KafkaError) as refused:
            operation()
        assert refused.value is raised.value
    assert log.volume.failure is None
    assert append(other, b"x") == 0


def test_failed_log_is_recovered_by_the_next_start(log: PartitionLog) -> None:
    with pytest.raises(InvalidLogStateError):
        log.advance_log_end(5)
    manager = LogManager([log.volume], log.volume, log.config)
    manager.close(clean=True)
    volume = open_volume(log.volume.path)
    volume.load_checkpoints()
    assert not volume.was_clean
    again = LogManager([volume], volume, log.config)
    again.open()
    again.recover()
    found = again.get("t", 0)
    assert found is not None
    assert found.log_end_offset == 10
    volume.unlock()


def test_lower_high_watermark_within_the_log_is_accepted(log: PartitionLog) -> None:
    log.advance_high_watermark(2)
    assert offsets(log)[:3] == (2, 2, 10)


def test_truncation_lowers_the_high_watermark_and_the_log_start(log: PartitionLog) -> None:
    log.flush()
    assert offsets(log) == (2, 8, 10, 10)
    log.truncate_to(5)
    assert offsets(log) == (2, 5, 5, 5)
    log.truncate_to(1)
    assert offsets(log) == (1, 1, 1, 1)
    log.truncate_fully_and_start_at(30)
    assert offsets(log) == (30, 30, 30, 1)


def assigned_state(module: Path) -> Iterator[str]:
    """Yield the places where a module changes an attribute of a log by itself."""
    state = set(LogState.__slots__) - {"read_ends"}
    for node in ast.walk(ast.parse(module.read_text())):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            targets = list(node.targets)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_change = node.func.attr in {"append", "pop", "insert", "remove", "extend", "clear"}
            targets = [node.func.value] if is_change else []
        for target in targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Attribute) and each.attr in state:
                    owner = each.value
                    name = getattr(owner, "attr", getattr(owner, "id", ""))
                    if name in {"log", "_log"}:
                        yield f"{module.name}:{node.lineno} {ast.unparse(each)}"


def test_state_of_a_log_is_assigned_by_its_own_modules_only() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if path.name not in OWNERS]
    found = [place for module in modules for place in assigned_state(module)]
    # `log.producers.append` and `log.epochs.clear` are methods of these classes, with own checks.
    calls = ("log.producers", "log.epochs", "log.volume")
    assert [place for place in found if not place.endswith(calls)] == []


def test_assignment_outside_of_the_owners_is_found(tmp_path: Path) -> None:
    module = tmp_path / "other.py"
    module.write_text("self.log.high_watermark = 3\nlog.segments.pop()\nlog.cuts += 1\n")
    assert len(list(assigned_state(module))) == 3
