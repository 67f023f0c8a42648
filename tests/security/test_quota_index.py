"""The most specific quota of a client, against the order that Kafka documents."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cluster.metadata.client_quotas import CLIENT_ID, USER, QuotaEntity
from barnabas.security.quota_index import Bucket, QuotaIndex

ALICE: QuotaEntity = ((USER, "alice"),)


def both(client_id: str | None, user: str | None) -> QuotaEntity:
    return ((CLIENT_ID, client_id), (USER, user))


def in_order(user: str, client_id: str) -> list[tuple[QuotaEntity, Bucket]]:
    """Return the entities that concern a client, the first one before the others."""
    pair, user_only, id_only = (user, client_id), (user, ""), ("", client_id)
    return [
        (both(client_id, user), pair),
        (both(None, user), pair),
        (((USER, user),), user_only),
        (both(client_id, None), pair),
        (both(None, None), pair),
        (((USER, None),), user_only),
        (((CLIENT_ID, client_id),), id_only),
        (((CLIENT_ID, None),), id_only),
    ]


ENTITIES = [entity for entity, _ in in_order("alice", "app")] + [
    both("other", "alice"),
    both("app", "bob"),
    ((USER, "bob"),),
    ((CLIENT_ID, "other"),),
]


@given(st.dictionaries(st.sampled_from(ENTITIES), st.floats(1, 1e9)))
def test_the_most_specific_quota_is_found(quotas: dict[QuotaEntity, float]) -> None:
    expected = next(
        ((bucket, quotas[e]) for e, bucket in in_order("alice", "app") if e in quotas), None
    )
    assert QuotaIndex(quotas.items()).find("alice", "app") == expected


def test_clients_of_a_default_have_separate_rates() -> None:
    index = QuotaIndex([(((CLIENT_ID, None),), 5.0)])
    assert index.find("alice", "a") == (("", "a"), 5.0)
    assert index.find("bob", "b") == (("", "b"), 5.0)


def test_client_without_client_id_has_only_the_quotas_of_users() -> None:
    ids = [(((CLIENT_ID, None),), 1.0), (both(None, None), 2.0), (both(None, "alice"), 3.0)]
    assert QuotaIndex(ids).find("alice", "") is None
    assert QuotaIndex([*ids, (ALICE, 4.0)]).find("alice", "") == (("alice", ""), 4.0)
