"""The metadata hash is Kafka's, and subscriptions by expression match as Kafka's do."""

import pytest

from barnabas.coordinator.core.steps import run_through
from barnabas.coordinator.groups.consumer import regex_subscriptions
from barnabas.coordinator.groups.consumer.subscribed_topics import Topics, topic_hash
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.group_harness import image_of, matched, topic_id

RACKS = {0: "zone-b", 1: "zone-a", 2: "zone-c"}


def topics(**partitions: int) -> Topics:
    known = Topics()
    known.update(image_of(partitions, racks=RACKS), changed=(), created=True)
    return known


def metadata_hash(known: Topics, names: list[str]) -> int:
    return run_through(known.metadata_hash(names))


def test_topic_hash_equals_apache_kafkas() -> None:
    """Computed by Kafka 4.3.0's own Utils.computeTopicHash and computeGroupHash."""
    image = image_of({"foo": 2, "bär": 1}, racks=RACKS)
    by_name = image.topics_by_name
    assert topic_hash(image, by_name["foo"]) == -1339607211721274479
    assert topic_hash(image, by_name["bär"]) == 180528484401088848
    assert metadata_hash(topics(foo=2, bär=1), ["foo", "bär", "gone"]) == 7042278124495518210


def test_metadata_hash_without_topics_is_zero() -> None:
    assert metadata_hash(topics(), ["gone"]) == 0


def test_metadata_hash_changes_with_partitions_racks_and_ids() -> None:
    known = topics(foo=2)
    before = metadata_hash(known, ["foo"])
    known.update(image_of({"foo": 3}, racks=RACKS), changed=["foo"], created=False)
    grown = metadata_hash(known, ["foo"])
    known.update(image_of({"foo": 2}, racks=RACKS | {0: "x"}), changed=["foo"], created=False)
    assert len({before, grown, metadata_hash(known, ["foo"])}) == 3


def test_metadata_hash_reads_only_changed_topics() -> None:
    known = topics(foo=2)
    before = metadata_hash(known, ["foo"])
    known.update(image_of({"foo": 3}, racks=RACKS), changed=[], created=False)
    assert metadata_hash(known, ["foo"]) == before


def test_topics_ids_counts_and_racks_are_those_of_the_image() -> None:
    known = topics(foo=2)
    names = frozenset({"foo", "gone", "late"})
    assert known.ids(names) == {topic_id("foo")}
    assert known.partition_counts([topic_id("foo")]) == {topic_id("foo"): 2}
    assert known.racks(topic_id("foo"), 0) == ["zone-b", "zone-a"]
    assert known.racks(topic_id("foo"), 7) == []


def test_regex_matching_needs_the_complete_name() -> None:
    names = ["foo", "foobar", "barfoo"]
    assert {one: matched(one, names) for one in ("foo", "foo.*", ".*", "x")} == {
        "foo": frozenset({"foo"}),
        "foo.*": frozenset({"foo", "foobar"}),
        ".*": frozenset(names),
        "x": frozenset(),
    }


def test_regex_matching_advances_by_the_given_number() -> None:
    matching = regex_subscriptions.Matching("t.*", iter(["t1", "u", "t2", "t3"]))
    assert matching.advance(2)
    assert matching.matched == {"t1"}
    assert matching.advance(3)
    assert not matching.advance(3)
    assert matching.matched == {"t1", "t2", "t3"}


def test_regex_matching_invalid_expression_matches_nothing() -> None:
    assert matched("(?<=a)b", ["ab"]) == frozenset()


@pytest.mark.parametrize("bad", ["(a", "a{1,1001}", r"(a)\1", "((a{1000}){1000}){1000}"])
def test_regex_validation_invalid_expression_is_refused(bad: str) -> None:
    with pytest.raises(KafkaError) as refusal:
        regex_subscriptions.validate(bad)
    assert refusal.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refusal.value.message.startswith(f"SubscribedTopicRegex `{bad}` is not a valid")


def test_regex_matching_evil_expression_takes_linear_time() -> None:
    assert matched("(a*)*b", ["a" * 200]) == frozenset()
