"""Delegation tokens at the controller: rules and errors of DelegationTokenControlManager."""

import hashlib
import hmac
from typing import Any

import pytest

from barnabas.cluster.controller import controller as controller_module
from barnabas.cluster.controller.controller_requests import TokenOperation
from barnabas.cluster.controller.controller_tasks import ControllerTasks
from barnabas.cluster.metadata.delegation_tokens import DelegationToken
from barnabas.cluster.metadata.delta import MetadataDelta
from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image import MetadataImage
from barnabas.cluster.metadata.image_difference import difference
from barnabas.cluster.metadata.image_records import image_records
from barnabas.cluster.metadata.record_versions import records_at
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.records.metadata_records import (
    DelegationTokenRecord,
    FeatureLevelRecord,
    RemoveDelegationTokenRecord,
)
from tests.cluster.states import Cluster

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
NOW = 1_800_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
LATEST = (1 << 63) - 1
Renewer = CreateDelegationTokenRequest.CreatableRenewers


def cluster(secret: str | None = "secret", **overrides: str) -> Cluster:
    given = {} if secret is None else {"delegation_token_secret_key": secret}
    made = Cluster(**given, **overrides)
    made.wall_ms = NOW
    return made


def ask(cluster: Cluster, requester: str, request: Any, version: int = 3) -> Any:
    return cluster.take(cluster.controller.handle(TokenOperation(requester, request), version))


def create(
    cluster: Cluster,
    requester: str = ALICE,
    *renewers: str,
    owner: str | None = None,
    lifetime_ms: int = -1,
    version: int = 3,
) -> CreateDelegationTokenResponse:
    kind, _, name = (owner or "").partition(":")
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[
            Renewer(principal_type=each.partition(":")[0], principal_name=each.partition(":")[2])
            for each in renewers
        ],
        max_lifetime_ms=lifetime_ms,
    )
    return ask(cluster, requester, request, version)


def renew(cluster: Cluster, proof: bytes, requester: str = ALICE, period_ms: int = -1) -> int:
    request = RenewDelegationTokenRequest(hmac=proof, renew_period_ms=period_ms)
    return ask(cluster, requester, request, 2).expiry_timestamp_ms


def expire(cluster: Cluster, proof: bytes, requester: str = ALICE, period_ms: int = -1) -> int:
    request = ExpireDelegationTokenRequest(hmac=proof, expiry_time_period_ms=period_ms)
    return ask(cluster, requester, request, 2).expiry_timestamp_ms


def test_token_is_created_for_its_requester() -> None:
    made = cluster()
    answer = create(made, ALICE, BOB)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.principal_type, answer.principal_name) == ("User", "alice")
    assert answer.token_requester_principal_name == "alice"
    assert answer.issue_timestamp_ms == NOW
    assert answer.expiry_timestamp_ms == NOW + DAY
    assert answer.max_timestamp_ms == NOW + 7 * DAY
    expected = hmac.new(b"secret", answer.token_id.encode(), hashlib.sha512).digest()
    assert answer.hmac == expected
    assert made.image.tokens == {
        answer.token_id: DelegationToken(ALICE, ALICE, (BOB,), NOW, NOW + 7 * DAY, NOW + DAY)
    }


def test_token_of_another_owner_names_both() -> None:
    made = cluster()
    answer = create(made, ALICE, owner=BOB)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "alice")
    token = made.image.tokens[answer.token_id]
    assert (token.owner, token.requester) == (BOB, ALICE)
    with pytest.raises(KafkaError) as refused:
        renew(made, answer.hmac, ALICE)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(made, answer.hmac, BOB) == NOW + DAY


def test_response_of_an_old_version_has_no_requester() -> None:
    answer = create(cluster(), version=2)
    assert answer.error_code == ErrorCode.NONE
    assert answer.token_requester_principal_type == ""


@pytest.mark.parametrize(
    ("lifetime_ms", "most_ms"), [(-1, 7 * DAY), (0, 7 * DAY), (HOUR, HOUR), (9 * DAY, 7 * DAY)]
)
def test_lifetime_is_at_most_that_of_the_configuration(lifetime_ms: int, most_ms: int) -> None:
    answer = create(cluster(), lifetime_ms=lifetime_ms)
    assert answer.max_timestamp_ms == NOW + most_ms
    assert answer.expiry_timestamp_ms == NOW + min(most_ms, DAY)


def test_lifetime_and_validity_are_those_of_the_configuration() -> None:
    made = cluster(
        delegation_token_max_lifetime_ms=str(3 * HOUR), delegation_token_expiry_time_ms=str(HOUR)
    )
    answer = create(made)
    assert answer.max_timestamp_ms == NOW + 3 * HOUR
    assert answer.expiry_timestamp_ms == NOW + HOUR
    assert renew(made, answer.hmac, period_ms=2 * HOUR) == NOW + HOUR


def test_time_beyond_the_latest_is_the_latest() -> None:
    made = cluster(
        delegation_token_max_lifetime_ms=str(LATEST), delegation_token_expiry_time_ms=str(LATEST)
    )
    answer = create(made)
    assert answer.max_timestamp_ms == answer.expiry_timestamp_ms == LATEST
    assert expire(made, answer.hmac, period_ms=LATEST) == LATEST


@pytest.mark.parametrize("secret", [None, ""])
def test_tokens_are_disabled_without_a_secret(secret: str | None) -> None:
    made = cluster(secret)
    answer = create(made, ALICE, owner=BOB)
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "alice")
    assert (answer.token_id, answer.hmac, answer.max_timestamp_ms) == ("", b"", 0)
    for change in (renew, expire):
        with pytest.raises(KafkaError) as refused:
            change(made, b"x")
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert made.image.tokens == {}


def test_tokens_need_metadata_version_3_6() -> None:
    made = cluster()
    proof = create(made).hmac
    made.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=13)])
    assert create(made).error_code == ErrorCode.UNSUPPORTED_VERSION
    for change in (renew, expire):
        with pytest.raises(KafkaError) as refused:
            change(made, proof)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    made.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=14)])
    assert create(made).error_code == ErrorCode.NONE


def test_renewer_is_a_user() -> None:
    made = cluster()
    answer = create(made, ALICE, BOB, "Group:x")
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert made.image.tokens == {}


def test_owner_and_renewers_renew() -> None:
    made = cluster()
    answer = create(made, ALICE, BOB)
    made.wall_ms += HOUR
    for principal in (ALICE, BOB):
        assert renew(made, answer.hmac, principal) == NOW + HOUR + DAY
        assert renew(made, answer.hmac, principal, 5) == NOW + HOUR + 5
        assert renew(made, answer.hmac, principal, 2 * DAY) == NOW + HOUR + DAY
    assert made.image.tokens[answer.token_id].expiry_timestamp_ms == NOW + HOUR + DAY
    with pytest.raises(KafkaError) as refused:
        renew(made, answer.hmac, CAROL)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_token_is_not_renewed_beyond_its_lifetime() -> None:
    made = cluster()
    answer = create(made, lifetime_ms=DAY + HOUR)
    made.wall_ms += 2 * HOUR
    assert renew(made, answer.hmac) == NOW + DAY + HOUR


@pytest.mark.parametrize("change", [renew, expire])
def test_unknown_token_is_not_found(change: Any) -> None:
    made = cluster()
    proof = create(made).hmac
    assert expire(made, proof) == NOW
    for each in (proof, b"", b"x" * 64):
        with pytest.raises(KafkaError) as refused:
            change(made, each)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_expired_token_is_removed_but_neither_renewed_nor_changed() -> None:
    """The order of the checks is Kafka's: renewal looks at the time before the owner."""
    made = cluster()
    proof = create(made).hmac
    made.wall_ms = NOW + DAY
    assert renew(made, proof, period_ms=1) == NOW + DAY + 1
    made.wall_ms = NOW + DAY + 2
    expected = {
        (renew, CAROL): ErrorCode.DELEGATION_TOKEN_EXPIRED,
        (renew, ALICE): ErrorCode.DELEGATION_TOKEN_EXPIRED,
        (expire, CAROL): ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        (expire, ALICE): ErrorCode.DELEGATION_TOKEN_EXPIRED,
    }
    for (change, principal), code in expected.items():
        with pytest.raises(KafkaError) as refused:
            change(made, proof, principal, 1)
        assert refused.value.code is code
    assert expire(made, proof, period_ms=-1) == made.wall_ms
    assert made.image.tokens == {}


def test_end_of_a_token_is_set_up_to_its_lifetime() -> None:
    made = cluster()
    answer = create(made, ALICE, BOB)
    assert expire(made, answer.hmac, BOB, 0) == NOW
    assert expire(made, answer.hmac, BOB, 5 * DAY) == NOW + 5 * DAY
    assert expire(made, answer.hmac, BOB, 8 * DAY) == NOW + 7 * DAY
    with pytest.raises(KafkaError) as refused:
        expire(made, answer.hmac, CAROL)
    assert refused.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_expired_tokens_are_removed_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "MAX_TOKENS_PER_RUN", 2)
    made = cluster(delegation_token_expiry_check_interval_ms="5000")
    gone = [create(made, lifetime_ms=HOUR).token_id for _ in range(3)]
    kept = create(made).token_id
    tasks = ControllerTasks(made.controller)
    tasks.start(0)
    made.wall_ms += HOUR
    assert removed(made, tasks, 5000) == []  # a token is valid at its last millisecond
    made.wall_ms += 1
    assert removed(made, tasks, 9999) == []
    assert removed(made, tasks, 10_000) == gone[:2]
    assert removed(made, tasks, 10_000) == gone[2:]
    assert removed(made, tasks, 14_999) == []
    assert set(made.image.tokens) == {kept}


def removed(cluster: Cluster, tasks: ControllerTasks, now_ms: int) -> list[str]:
    """Run what is due until then; return the tokens that one run removed."""
    for _ in range(20):
        records = tasks.run_due(now_ms).records
        found = [x.token_id for x in records if isinstance(x, RemoveDelegationTokenRecord)]
        if found:
            cluster.replay(list(records))
            return found
    return []


def test_tokens_are_in_snapshots_and_in_the_difference_of_images() -> None:
    made = cluster()
    create(made, ALICE, BOB)
    create(made, BOB, owner=ALICE)
    delta = MetadataDelta(MetadataImage())
    for record in image_records(made.image):
        delta.replay(record)
    assert delta.apply(made.image.offset, 1).tokens == made.image.tokens
    before = made.image
    gone = next(iter(before.tokens))
    expire(made, create(made).hmac, period_ms=5)
    made.replay([RemoveDelegationTokenRecord(token_id=gone)])
    changes = difference(before, made.image)
    assert not changes.is_empty
    assert changes.tokens == {
        gone: None,
        **{key: each for key, each in made.image.tokens.items() if key not in before.tokens},
    }


def test_record_of_a_token_is_not_written_below_metadata_version_3_6() -> None:
    record = DelegationTokenRecord(owner=ALICE, requester=ALICE, token_id="t")
    assert records_at([record], 13) == []
    assert records_at([record], 14) == [record]
