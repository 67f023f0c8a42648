"""AlterClientQuotas: records, errors and responses, as Kafka's ClientQuotaControlManager."""

from math import inf, nan

import pytest

from barnabas.cluster.metadata.client_quotas import QuotaEntity
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_difference import difference
from barnabas.cluster.metadata.image_records import image_records
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.records.metadata_records import ClientQuotaRecord
from tests.cluster.states import Cluster

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
U: QuotaEntity = (("user", "u"),)
OK = (ErrorCode.NONE, None)
Outcome = tuple[int, str | None]
Parts = tuple[tuple[str, str | None], ...]
Change = tuple[Parts, tuple[tuple[str, float | None], ...]]


def invalid(message: str) -> Outcome:
    return ErrorCode.INVALID_REQUEST, message


def request_of(*changes: Change, validate_only: bool = False) -> AlterClientQuotasRequest:
    data = AlterClientQuotasRequest
    return data(
        entries=[
            data.EntryData(
                entity=[
                    data.EntityData(entity_type=kind, entity_name=name) for kind, name in parts
                ],
                ops=[
                    data.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values
                ],
            )
            for parts, values in changes
        ],
        validate_only=validate_only,
    )


def alter(
    cluster: Cluster, *changes: Change, validate_only: bool = False
) -> list[tuple[Outcome, Parts]]:
    request = request_of(*changes, validate_only=validate_only)
    response = cluster.take(cluster.controller.handle(request, 1))
    return [
        (
            (each.error_code, each.error_message),
            tuple((part.entity_type, part.entity_name) for part in each.entity),
        )
        for each in response.entries
    ]


def test_quota_is_set_changed_and_removed() -> None:
    cluster = Cluster()
    assert alter(cluster, (U, ((PRODUCER, 10.0), (CONSUMER, 20.0)))) == [(OK, U)]
    assert cluster.image.client_quotas == {(U, PRODUCER): 10.0, (U, CONSUMER): 20.0}
    assert alter(cluster, (U, ((PRODUCER, 11.0), (CONSUMER, None)))) == [(OK, U)]
    assert cluster.image.client_quotas == {(U, PRODUCER): 11.0}


def test_value_that_does_not_change_makes_no_record() -> None:
    cluster = Cluster()
    alter(cluster, (U, ((PRODUCER, 10.0),)))
    same = request_of((U, ((PRODUCER, 10.0), (CONSUMER, None))))
    assert cluster.controller.handle(same, 1).records == []


def test_validation_alone_makes_no_record() -> None:
    cluster = Cluster()
    assert alter(cluster, (U, ((PRODUCER, 10.0),)), validate_only=True) == [(OK, U)]
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize(
    "entity",
    [
        (("client-id", None),),
        (("user", None),),
        (("client-id", "c"), ("user", None)),
        (("client-id", None), ("user", "u")),
    ],
)
def test_entities_of_clients(entity: Parts) -> None:
    cluster = Cluster()
    assert alter(cluster, (tuple(reversed(entity)), ((PRODUCER, 10.0),))) == [(OK, entity)]
    assert cluster.image.client_quotas == {(entity, PRODUCER): 10.0}


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ((), "Invalid empty client quota entity"),
        ((("group", "g"),), "Unhandled client quota entity type: group"),
        ((("", "x"),), "Unhandled client quota entity type: "),
        ((("user", ""),), "Empty user not supported"),
        ((("ip", ""),), "Empty ip not supported"),
        (
            (("user", "u"), ("ip", "10.0.0.1")),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId",
        ),
    ],
)
def test_invalid_entity_is_refused(entity: Parts, message: str) -> None:
    cluster = Cluster()
    assert alter(cluster, (entity, ((PRODUCER, 5.0),))) == [(invalid(message), entity)]
    assert cluster.image.client_quotas == {}


GREATER = invalid(f"Quota {PRODUCER} must be greater than 0")
FRACTION = invalid(f"{PRODUCER} cannot be a fractional value.")
LARGE = invalid(f"Proposed value for {PRODUCER} is too large for a LONG.")


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (1e-7, OK),
        (5.0000001, OK),
        (9.223372036854775807e18, OK),
        (5.00001, FRACTION),
        (1.9999999, FRACTION),
        (0.0, GREATER),
        (-1.0, GREATER),
        (nan, GREATER),  # Kafka accepts it, and then neither limits the client nor shows it
        (9.3e18, LARGE),
        (inf, LARGE),
    ],
)
def test_values_of_a_rate_of_bytes(value: float, outcome: Outcome) -> None:
    cluster = Cluster()
    data = request_of((U, ((PRODUCER, 1.0),)))
    data.entries[0].ops[0].value = value
    response = cluster.take(cluster.controller.handle(data, 1))
    assert [(each.error_code, each.error_message) for each in response.entries] == [outcome]
    assert cluster.image.client_quotas == ({(U, PRODUCER): value} if outcome is OK else {})


@pytest.mark.parametrize(
    ("entity", "key", "value", "outcome"),
    [
        (U, "bogus", 5.0, invalid("Invalid configuration key bogus")),
        (U, "bogus", None, OK),
        (
            U,
            "connection_creation_rate",
            5.0,
            invalid("Invalid configuration key connection_creation_rate"),
        ),
        ((("ip", "10.0.0.1"),), PRODUCER, 5.0, invalid(f"Invalid configuration key {PRODUCER}")),
        (
            (("ip", None),),
            "connection_creation_rate",
            3e9,
            invalid("Proposed value for connection_creation_rate is too large for an INT."),
        ),
    ],
)
def test_keys_of_entities(entity: Parts, key: str, value: float | None, outcome: Outcome) -> None:
    assert alter(Cluster(), (entity, ((key, value),))) == [(outcome, entity)]


@pytest.mark.parametrize(
    ("entity", "key"),
    [
        (U, "request_percentage"),
        (U, "controller_mutation_rate"),
        ((("ip", "10.0.0.1"),), "connection_creation_rate"),
    ],
)
def test_quota_of_each_kind_is_set_and_removed(entity: Parts, key: str) -> None:
    cluster = Cluster()
    assert alter(cluster, (entity, ((key, 5.0),))) == [(OK, entity)]
    assert cluster.image.client_quotas == {(entity, key): 5.0}
    assert alter(cluster, (entity, ((key, None),))) == [(OK, entity)]
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize("name", ["localhost", "10.0.0", "10.0.0.256", "::g"])
def test_quota_of_a_host_name_is_refused(name: str) -> None:
    entity: Parts = (("ip", name),)
    refused = invalid(f"{name} is not a valid IP or resolvable host.")
    changes = (entity, (("connection_creation_rate", 5.0),))
    assert alter(Cluster(), changes) == [(refused, entity)]


def test_changes_of_one_entity_succeed_or_fail_together() -> None:
    cluster = Cluster()
    other: Parts = (("user", "other"),)
    changes = (U, ((PRODUCER, 7.0), ("bogus", 5.0))), (other, ((PRODUCER, 8.0),))
    refused = invalid("Invalid configuration key bogus")
    assert alter(cluster, *changes) == [(refused, U), (OK, other)]
    assert cluster.image.client_quotas == {(other, PRODUCER): 8.0}


def test_repeated_entity_keeps_its_first_change_and_is_refused() -> None:
    cluster = Cluster()
    pair: Parts = (("client-id", "c"), ("user", None))
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=c, user=null})"
    changes = (pair, ((PRODUCER, 5.0),)), (tuple(reversed(pair)), ((PRODUCER, 6.0),))
    assert alter(cluster, *changes) == [(invalid(text), pair)]
    assert cluster.image.client_quotas == {(pair, PRODUCER): 5.0}


def test_repeated_key_is_refused() -> None:
    cluster = Cluster()
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    assert alter(cluster, (U, ((PRODUCER, 5.0), (PRODUCER, 6.0)))) == [(invalid(text), U)]
    assert cluster.image.client_quotas == {}


def test_last_name_of_a_repeated_type_counts() -> None:
    cluster = Cluster()
    repeated: Parts = (("user", "a"), ("user", "u"))
    assert alter(cluster, (repeated, ((PRODUCER, 5.0),))) == [(OK, U)]


def test_snapshot_and_difference_have_the_quotas() -> None:
    cluster = Cluster()
    before = cluster.image
    alter(cluster, (U, ((PRODUCER, 10.0),)), ((("client-id", None),), ((CONSUMER, 20.0),)))
    after = cluster.image
    delta = difference(before, after)
    assert not delta.is_empty
    assert delta.apply(after.offset, after.record_epoch).client_quotas == after.client_quotas
    back = difference(after, before).apply(before.offset, before.record_epoch)
    assert back.client_quotas == {}
    quotas = [r for r in image_records(after) if isinstance(r, ClientQuotaRecord)]
    fresh = Cluster(brokers=0)
    fresh.replay(list(quotas))
    assert fresh.image.client_quotas == after.client_quotas
    assert MetadataImage().client_quotas == {}
