from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.coordinator.core.coordinator_output import Output
from barnabas.coordinator.core.coordinator_timers import Timers

ACTIONS = st.lists(
    st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 50))), max_size=30
)


def noop(_now_ms: int) -> Output:
    return Output()


def test_timers_renewed_timer_runs_once_at_its_last_deadline() -> None:
    timers = Timers()
    timers.schedule("a", 10, noop)
    timers.schedule("a", 30, noop)
    timers.schedule("a", 20, noop)
    assert timers.next_wakeup() == 20
    assert timers.pop_due(19) is None
    assert timers.pop_due(20) is noop
    assert timers.pop_due(100) is None
    assert timers.next_wakeup() is None


def test_timers_renewing_does_not_grow_the_heap() -> None:
    timers = Timers()
    for deadline_ms in range(10_000):
        timers.schedule("member", deadline_ms, noop)
    assert len(timers._heap) == 1


@given(ACTIONS)
@settings(max_examples=200, derandomize=True)
def test_timers_equal_a_plain_table(actions: list[tuple[int, int | None]]) -> None:
    timers, table = Timers(), dict[int, int]()
    for key, deadline_ms in actions:
        if deadline_ms is None:
            timers.cancel(key)
            table.pop(key, None)
        else:
            timers.schedule(key, deadline_ms, noop)
            table[key] = deadline_ms
        assert timers.next_wakeup() == min(table.values(), default=None)
    for now_ms in sorted(set(table.values())):
        due = 0
        while timers.pop_due(now_ms) is not None:
            due += 1
        assert due == sum(deadline == now_ms for deadline in table.values())
