"""Names of topics at the target, as MirrorMaker 2's policies give them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.mirror.mirrormaker.replication_policies import ReplicationPolicy

DEFAULT = ReplicationPolicy("A")
IDENTITY = ReplicationPolicy("A", is_identity=True)


def test_the_default_policy_renames_and_the_identity_policy_does_not() -> None:
    assert DEFAULT.remote_topic("orders") == "A.orders"
    assert IDENTITY.remote_topic("orders") == "orders"
    assert IDENTITY.remote_topic("heartbeats") == "A.heartbeats"


def test_names_of_own_topics() -> None:
    policy = ReplicationPolicy("A", separator="_")
    assert DEFAULT.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert DEFAULT.checkpoints_topic == "A.checkpoints.internal"
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs_B_internal"
    assert policy.checkpoints_topic == "A_checkpoints_internal"
    with_dots = ReplicationPolicy("A", separator="_", separates_internal=False)
    assert with_dots.checkpoints_topic == "A.checkpoints.internal"
    assert with_dots.remote_topic("t") == "A_t"


@pytest.mark.parametrize(
    ("topic", "is_cycle"), [("B.t", True), ("C.B.t", True), ("C.t", False), ("t", False)]
)
def test_a_topic_of_the_target_is_a_cycle(topic: str, *, is_cycle: bool) -> None:
    assert DEFAULT.is_cycle(topic, "B") is is_cycle
    assert not IDENTITY.is_cycle(topic, "B")


def test_internal_topics() -> None:
    names = ["__consumer_offsets", ".x", "mm2-configs.B.internal", "B.checkpoints.internal"]
    assert all(DEFAULT.is_internal(name) for name in names)
    assert not any(DEFAULT.is_internal(name) for name in ["heartbeats", "x.internal", "mm2.x"])
    assert DEFAULT.is_heartbeats("heartbeats")
    assert DEFAULT.is_heartbeats("C.B.heartbeats")
    assert not DEFAULT.is_heartbeats("my-heartbeats")


@given(
    st.text("ABt.-_", min_size=1, max_size=8),
    st.text("abt.-_", min_size=1, max_size=12).filter(lambda each: each.strip(".-_")),
    st.sampled_from([".", "_", "--"]),
)
def test_a_remote_name_leads_back_to_its_topic(source: str, topic: str, separator: str) -> None:
    if separator in source + separator[:-1] or topic.startswith(separator[:1]):
        return
    policy = ReplicationPolicy(source, separator=separator)
    remote = policy.remote_topic(topic)
    assert policy.topic_source(remote) == source
    assert policy.upstream_topic(remote) == topic
