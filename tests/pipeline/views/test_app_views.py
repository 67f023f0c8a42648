"""The views of an app, when a table is replaced by another one of the same topic."""

import struct
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.pipeline.views.app_views import AppViews
from barnabas.pipeline.views.live_view import LiveView, ViewSpec
from barnabas.pipeline.views.view_codecs import CODECS
from barnabas.pipeline.views.view_keys import KeyForm, ViewKeys
from barnabas.testing import Node

TOPIC = "table"
WINDOWS = ViewKeys(KeyForm.TIME_WINDOW, 1000)
WAIT_S = 120.0


def opened(views: AppViews, keys: ViewKeys) -> LiveView:
    spec = ViewSpec(TOPIC, views.path(TOPIC), CODECS["string"], CODECS["string"], keys)
    return views.open(spec, WAIT_S).catch_up(WAIT_S)


def created(node: Node, key: bytes) -> None:
    """Create the topic with one row."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    if TOPIC in admin.list_topics(timeout=30).topics:
        admin.delete_topics([TOPIC])[TOPIC].result(30)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    producer.produce(TOPIC, b"value", key)
    assert producer.flush(30) == 0


def test_view_is_closed_and_reads_the_topic_that_replaced_its_own(tmp_path: Path) -> None:
    with Node() as node:
        views = AppViews({"bootstrap.servers": node.bootstrap}, tmp_path)
        try:
            created(node, b"a")
            before = opened(views, ViewKeys())
            assert before.get("a") == "value"
            with pytest.raises(ValueError, match="open for plain keys, not for time-window keys"):
                opened(views, WINDOWS)
            views.close_view(TOPIC, unless=ViewKeys())
            assert before.is_running()
            created(node, b"b" + struct.pack(">q", 5000))
            views.close_view(TOPIC, unless=WINDOWS)
            assert not before.is_running()
            (row,) = opened(views, WINDOWS).windows("b")
            assert (row.value, row.window) == ("value", (5000, 6000))
            views.close_view("other")
        finally:
            views.close()
