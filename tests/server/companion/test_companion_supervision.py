"""The supervision of a companion: delays, giving up, stopping."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.server.companion.companion_supervision import (
    UNUSABLE_STATUS,
    Action,
    CompanionSupervision,
    Effect,
    Report,
    RestartPolicy,
    State,
)

POLICY = RestartPolicy(first_delay_s=1, longest_delay_s=10, healthy_s=60, stop_grace_s=5)


def started() -> CompanionSupervision:
    supervision = CompanionSupervision(POLICY)
    assert supervision.start(0) == [Action.SPAWN]
    return supervision


def actions(effects: list[Effect]) -> list[Action]:
    return [effect for effect in effects if isinstance(effect, Action)]


def test_companion_that_fails_restarts_with_growing_delays() -> None:
    supervision, now, delays = started(), 0.0, []
    for _ in range(6):
        supervision.exited(1, now)
        delays.append(supervision.wake_at - now)
        assert supervision.wake(supervision.wake_at - 0.1) == []
        now = supervision.wake_at
        assert supervision.wake(now) == [Action.SPAWN]
    assert delays == [1, 2, 4, 8, 10, 10]


def test_companion_that_ran_well_restarts_with_the_first_delay() -> None:
    supervision = started()
    supervision.exited(1, 1)
    supervision.wake(2)
    supervision.exited(-9, 2 + 60)
    assert (supervision.failures, supervision.wake_at) == (1, 63)


def test_companion_that_cannot_start_is_tried_again() -> None:
    supervision = started()
    [report] = supervision.spawn_failed("No such file or directory", 0)
    assert isinstance(report, Report)
    assert report.text == "cannot start: No such file or directory, restarting delay_s=1 failures=1"
    assert supervision.wake(1) == [Action.SPAWN]


def test_companion_with_unusable_configuration_is_given_up() -> None:
    supervision = started()
    [report] = supervision.exited(UNUSABLE_STATUS, 1)
    assert isinstance(report, Report)
    assert (supervision.state, supervision.is_over) == (State.GIVEN_UP, True)


def test_companion_stop_terminates_then_kills_after_the_grace() -> None:
    supervision = started()
    assert supervision.stop(10) == [Action.TERMINATE]
    assert supervision.stop(11) == []
    assert actions(supervision.wake(15)) == [Action.KILL]
    assert supervision.exited(-9, 15.1) == []
    assert supervision.is_over


def test_companion_stop_during_a_delay_starts_nothing() -> None:
    supervision = started()
    supervision.exited(1, 1)
    assert supervision.stop(1.5) == []
    assert supervision.is_over
    assert supervision.wake(100) == []


EVENTS = st.lists(
    st.sampled_from(["exit 0", "exit 1", "exit 2", "signal", "spawn failed", "stop", "time"]),
    max_size=30,
)


@given(EVENTS)
def test_companion_any_events_run_at_most_one_process_and_none_after_stop(
    events: list[str],
) -> None:
    supervision, now, running, stopped = started(), 0.0, True, False
    for event in events:
        now += 0.7
        effects: list[Effect] = []
        if event == "stop":
            effects, stopped = supervision.stop(now), True
        elif event == "time":
            now = max(now, min(supervision.wake_at, now + 20))
            effects = supervision.wake(now)
        elif running:
            running = False
            if event == "spawn failed":
                effects = supervision.spawn_failed("no", now)
            else:
                status = {"signal": -9}.get(event, int(event[-1]) if event != "signal" else 0)
                effects = supervision.exited(status, now)
        for action in actions(effects):
            if action is Action.SPAWN:
                assert not running
                assert not stopped
                running = True
            else:
                assert running
        assert supervision.is_over <= (not running)
        if not running and not supervision.is_over:
            assert supervision.wake_at < float("inf")
        if stopped and not running:
            assert supervision.is_over
