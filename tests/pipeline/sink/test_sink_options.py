"""Options of the format `barnabas`: what is accepted, and the message for the rest."""

import pytest

from barnabas.pipeline.sink.sink_errors import SinkOptionError
from barnabas.pipeline.sink.sink_options import parse

BOOTSTRAP = {"kafka.bootstrap.servers": "h:1"}


def test_client_properties_reach_the_producer_under_names_of_librdkafka() -> None:
    given = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": 'x.ScramLoginModule required username="u" password="p";',
        "kafka.linger.ms": "20",
        "kafka.transaction.timeout.ms": "60000",
        "Topic": "t",
        "name": "q",
        "checkpointlocation": "/c",
    }
    options = parse(given, is_stream=True)
    producer = options.producer()
    assert (options.topic, options.name) == ("t", "q")
    assert producer["sasl.username"] == "u"
    assert producer["linger.ms"] == "20"
    assert producer["transaction.timeout.ms"] == 60_000
    assert producer["acks"] == "all"
    assert "linger.ms" not in options.consumer()
    assert options.consumer()["sasl.password"] == "p"
    assert "password" not in repr(options)


def test_transactions_have_the_time_that_brokers_allow_by_default() -> None:
    assert parse(BOOTSTRAP, is_stream=False).producer()["transaction.timeout.ms"] == 900_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "`kafka.bootstrap.servers` is missing"),
        ({"bootstrap.servers": "h:1"}, "did you mean `kafka.bootstrap.servers`"),
        ({**BOOTSTRAP, "topcs": "t"}, "did you mean `topic`"),
        ({**BOOTSTRAP, "mergeschema": "true"}, "option `mergeschema` is unknown"),
        ({**BOOTSTRAP, "kafka.acks": "1"}, "always writes with acks=all"),
        ({**BOOTSTRAP, "kafka.transactional.id": "i"}, "from the option `name`"),
        ({**BOOTSTRAP, "kafka.value.serializer": "x"}, "convert the column `value`"),
        ({**BOOTSTRAP, "kafka.transaction.timeout.ms": "1m"}, "timeout.ms=1m is not a number"),
        ({**BOOTSTRAP, "kafka.security.protocol": "SSH"}, "SSH"),
        ({**BOOTSTRAP, "name": "a b"}, "option `name` is 'a b'"),
        ({**BOOTSTRAP, "name": ".."}, "option `name` is '..'"),
    ],
)
def test_wrong_option_is_refused_with_its_name_and_a_remedy(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(SinkOptionError) as raised:
        parse(given, is_stream=False)
    assert message in str(raised.value)


def test_name_is_needed_by_streams_only() -> None:
    assert parse(BOOTSTRAP, is_stream=False).name is None
    with pytest.raises(SinkOptionError, match="option `name` is missing"):
        parse(BOOTSTRAP, is_stream=True)
