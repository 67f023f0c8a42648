"""The state that records of Connect's topics describe."""

from barnabas.pipeline.jobs.core.job_supervision import TargetState
from barnabas.pipeline.jobs.core.store_records import (
    ActiveTopicRecord,
    CommitRecord,
    ConnectorRecord,
    OffsetRecord,
    SourceTopicRecord,
    StatusRecord,
    TargetRecord,
    TaskRecord,
)
from barnabas.pipeline.jobs.core.store_state import StoreState


def test_tasks_count_once_all_of_them_are_committed() -> None:
    state = StoreState()
    state.replay_config(ConnectorRecord("c", {"name": "c"}))
    state.replay_config(TaskRecord("c", 0, {"n": "0"}))
    assert state.connectors["c"].tasks == []
    state.replay_config(CommitRecord("c", 2))
    assert state.connectors["c"].is_inconsistent
    state.replay_config(TaskRecord("c", 1, {"n": "1"}))
    state.replay_config(CommitRecord("c", 2))
    assert state.connectors["c"].tasks == [{"n": "0"}, {"n": "1"}]
    assert not state.connectors["c"].is_inconsistent
    state.replay_config(CommitRecord("c", 0))
    assert state.connectors["c"].tasks == []


def test_target_written_before_the_connector_counts() -> None:
    state = StoreState()
    state.replay_config(TargetRecord("c", "STOPPED"))
    state.replay_config(ConnectorRecord("c", {}))
    assert state.connectors["c"].target is TargetState.STOPPED
    state.replay_config(TargetRecord("c", "LATER-VERSION"))
    assert state.connectors["c"].target is TargetState.STOPPED
    state.replay_config(ConnectorRecord("c", None))
    state.replay_config(TargetRecord("c", None))
    state.replay_config(ConnectorRecord("c", {}))
    assert state.connectors["c"].target is TargetState.STARTED


def test_generation_rises_with_each_configuration() -> None:
    state = StoreState()
    state.replay_config(ConnectorRecord("c", {"a": "1"}))
    first = state.connectors["c"].generation
    state.replay_config(ConnectorRecord("c", {"a": "2"}))
    assert state.connectors["c"].generation > first
    assert state.connectors["c"].config == {"a": "2"}


def test_statuses_and_topics_are_removed_by_null() -> None:
    state = StoreState()
    state.replay_status(StatusRecord("c", None, "RUNNING"))
    state.replay_status(StatusRecord("c", 0, "RUNNING"))
    state.replay_status(ActiveTopicRecord("t", "c", 0, 1))
    assert list(state.topics["c"]) == ["t"]
    state.replay_status(StatusRecord("c", None, None))
    state.replay_status(StatusRecord("c", 0, None))
    state.replay_status(ActiveTopicRecord("t", "c", None))
    assert state.statuses == {}
    assert state.topics["c"] == {}


def test_offsets_of_equal_partitions_replace_each_other() -> None:
    state = StoreState()
    state.replay_offset(OffsetRecord("c", {"a": 1, "b": 2}, {"position": 1}))
    state.replay_offset(OffsetRecord("c", {"b": 2, "a": 1}, {"position": 2}))
    assert [each.offset for each in state.offsets["c"].values()] == [{"position": 2}]
    state.replay_offset(OffsetRecord("c", {"a": 1, "b": 2}, None))
    assert state.offsets["c"] == {}


def test_source_topics_are_not_offsets() -> None:
    state = StoreState()
    state.replay_offset(SourceTopicRecord("c", "t", "id-1"))
    state.replay_offset(SourceTopicRecord("c", "u", "id-2"))
    state.replay_offset(SourceTopicRecord("c", "u", None))
    assert state.source_topics == {"c": {"t": "id-1"}}
    assert state.offsets == {}
