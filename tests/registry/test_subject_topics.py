"""The topic that a subject belongs to."""

import pytest

from barnabas.registry.core.subject_topics import SubjectTopics, is_settings_place


def test_topic_of_a_subject_is_that_of_its_name_or_of_the_longest_rule() -> None:
    topics = SubjectTopics.parse(" com.example.=shared, com.example.orders.=orders ,")
    found = {
        subject: topics.topic(subject)
        for subject in (
            "orders-value", "orders-key", ":.ctx:orders-value", "a-key-value", "-value",
            "com.example.Order", "com.example.orders.Order", ":.ctx:com.example.x-value", "plain",
        )
    }  # fmt: skip
    assert found == {
        "orders-value": "orders",
        "orders-key": "orders",
        ":.ctx:orders-value": "orders",
        "a-key-value": "a-key",
        "-value": "-value",
        "com.example.Order": "shared",
        "com.example.orders.Order": "orders",
        ":.ctx:com.example.x-value": "shared",
        "plain": "plain",
    }


@pytest.mark.parametrize("text", ["a", "=b", "a=", "a=b,c"])
def test_malformed_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not BEGINNING=TOPIC"):
        SubjectTopics.parse(text)


def test_name_of_a_context_is_not_a_subject() -> None:
    assert all(map(is_settings_place, (":.ctx:", ":.__GLOBAL:", ":.__GLOBAL:x")))
    assert not any(map(is_settings_place, ("x", ":.ctx:x")))
