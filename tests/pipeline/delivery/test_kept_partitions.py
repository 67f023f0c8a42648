"""Copies keep partitions where both topics have the same number of them."""

from barnabas.pipeline.delivery.writing.kept_partitions import KeptPartitions


def test_partitions_are_kept_while_both_topics_have_the_same_number() -> None:
    counts, now_s = {"a": 3, "b": 3, "c": 4}, [0.0]
    kept = KeptPartitions(lambda: now_s[0])
    assert kept.is_kept("a", 0, "b", counts.__getitem__)
    assert not kept.is_kept("a", 0, "c", counts.__getitem__)
    counts |= {"b": 4, "a": 4}
    now_s[0] = 29.0
    assert kept.is_kept("a", 0, "b", counts.__getitem__)
    assert not kept.is_kept("a", 0, "c", counts.__getitem__)
    counts["b"] = 5
    now_s[0] = 31.0
    assert not kept.is_kept("a", 0, "b", counts.__getitem__)
    assert kept.is_kept("a", 0, "c", counts.__getitem__)


def test_topic_without_partitions_is_looked_up_again() -> None:
    counts = {"a": 2, "b": 0}
    kept = KeptPartitions(lambda: 0.0)
    assert not kept.is_kept("a", 0, "b", counts.__getitem__)
    counts["b"] = 2
    assert kept.is_kept("a", 0, "b", counts.__getitem__)


def test_unknown_source_has_no_partitions_to_keep() -> None:
    assert not KeptPartitions().is_kept("a", 0, "b", {"a": 0, "b": 0}.__getitem__)


def test_partition_that_only_the_source_has_is_not_kept() -> None:
    """The number is looked up before its time: the producer would refuse the record."""
    counts = {"a": 2, "b": 2}
    kept = KeptPartitions(lambda: 0.0)
    assert kept.is_kept("a", 1, "b", counts.__getitem__)
    counts["a"] = 3
    assert kept.is_kept("a", 1, "b", counts.__getitem__)
    assert not kept.is_kept("a", 2, "b", counts.__getitem__)
    counts["b"] = 3
    assert not kept.is_kept("a", 2, "b", counts.__getitem__), "until the next look"
