"""Observers of dynamic values."""

import logging

import pytest

from barnabas.config import NodeConfig
from barnabas.config.subscriptions import ConfigSubscriptions

NODE = NodeConfig.load()


def test_observer_is_called_with_the_new_configuration_when_its_property_changes() -> None:
    subscriptions = ConfigSubscriptions(NODE)
    seen: list[object] = []
    subscriptions.subscribe(["max.connections"], lambda new: seen.append(new["max.connections"]))
    subscriptions.publish(NODE.with_dynamic({"max.connections": "5"}, {}))
    assert seen == [5]
    assert subscriptions.current["max.connections"] == 5


def test_observer_is_not_called_when_other_properties_change() -> None:
    subscriptions = ConfigSubscriptions(NODE)
    subscriptions.subscribe(["max.connections"], lambda _: pytest.fail("called"))
    subscriptions.publish(NODE.with_dynamic({"log.retention.ms": "5"}, {}))
    # The same value from another level is not a change.
    subscriptions.publish(NODE.with_dynamic({}, {"max.connections": str(2**31 - 1)}))


def test_observer_is_called_when_a_changed_property_returns_to_its_default() -> None:
    subscriptions = ConfigSubscriptions(NODE)
    subscriptions.publish(NODE.with_dynamic({"max.connections": "5"}, {}))
    seen: list[object] = []
    subscriptions.subscribe(["max.connections"], lambda new: seen.append(new["max.connections"]))
    subscriptions.publish(NODE)
    assert seen == [2**31 - 1]


def test_failing_observer_is_logged_and_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: NodeConfig) -> None:
        raise OSError("port in use")

    subscriptions = ConfigSubscriptions(NODE)
    seen: list[NodeConfig] = []
    subscriptions.subscribe(["listeners"], fail)
    subscriptions.subscribe(["listeners"], seen.append)
    with caplog.at_level(logging.ERROR):
        subscriptions.publish(
            NODE.with_dynamic({}, {"listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2"})
        )
    assert len(seen) == 1
    assert "cannot apply changed configuration properties=['listeners']" in caplog.text


def test_unsubscribed_observer_is_not_called() -> None:
    subscriptions = ConfigSubscriptions(NODE)
    seen: list[NodeConfig] = []
    subscriptions.subscribe(["max.connections"], seen.append)
    subscriptions.unsubscribe(seen.append)
    subscriptions.publish(NODE.with_dynamic({"max.connections": "5"}, {}))
    assert seen == []


def test_unknown_property_cannot_be_observed() -> None:
    with pytest.raises(KeyError):
        ConfigSubscriptions(NODE).subscribe(["no.such.property"], lambda _: None)
