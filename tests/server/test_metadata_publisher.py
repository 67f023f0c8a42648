"""Subscribers of the metadata: their order, and a failure of one of them."""

import logging

import pytest

from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.server.quorum.metadata_publisher import MetadataPublisher


def publish(publisher: MetadataPublisher, offset: int) -> None:
    publisher.publish(MetadataImage(offset=offset), MetadataDelta(publisher.image))


def fail(image: MetadataImage, delta: MetadataDelta) -> None:
    raise ZeroDivisionError("a bug")


def test_publisher_failing_subscriber_is_counted_and_others_are_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    publisher = MetadataPublisher(MetadataImage())
    seen: list[int] = []
    publisher.subscribe("failing", fail)
    publisher.subscribe("good", lambda image, _: seen.append(image.offset))
    with caplog.at_level(logging.ERROR, "barnabas"):
        for offset in (3, 4):
            publish(publisher, offset)
    assert seen == [3, 4]
    assert publisher.failures == {"failing": 2}
    assert publisher.image.offset == 4
    assert "metadata subscriber failed subscriber=failing offset=3" in caplog.text


def test_publisher_failing_essential_subscriber_raises() -> None:
    publisher = MetadataPublisher(MetadataImage())
    publisher.subscribe("replicas", fail, essential=True)
    with pytest.raises(ZeroDivisionError):
        publish(publisher, 1)
    assert publisher.failures == {"replicas": 1}


def test_publisher_subscriber_sees_the_new_image_as_current() -> None:
    publisher = MetadataPublisher(MetadataImage())
    seen: list[int] = []
    publisher.subscribe("observer", lambda *_: seen.append(publisher.image.offset))
    publish(publisher, 8)
    assert seen == [8]
