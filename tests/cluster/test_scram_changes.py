"""AlterUserScramCredentials: records, errors and responses, as Kafka's ScramControlManager."""

import pytest

from barnabas.cluster.metadata.feature_levels import METADATA_VERSION
from barnabas.cluster.metadata.image_records import image_records
from barnabas.cluster.metadata.record_versions import records_at
from barnabas.cluster.metadata.scram_credentials import SCRAM_MECHANISMS, ScramMechanism
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from barnabas.protocol.records.metadata_records import (
    FeatureLevelRecord,
    UserScramCredentialRecord,
)
from tests.cluster.states import Cluster

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
SHA_256, SHA_512 = SCRAM_MECHANISMS
TWICE = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)
OK = (ErrorCode.NONE, None)
Outcome = tuple[int, str | None]


def deletion(user: str, mechanism: int = SHA_256.code) -> Deletion:
    return Deletion(name=user, mechanism=mechanism)


def upsertion(
    user: str, mechanism: int = SHA_256.code, iterations: int = 4096, password: bytes = b"p" * 32
) -> Upsertion:
    return Upsertion(
        name=user,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=password,
    )


def alter(cluster: Cluster, *changes: Deletion | Upsertion) -> dict[str, Outcome]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, Deletion)],
        upsertions=[each for each in changes if isinstance(each, Upsertion)],
    )
    response = cluster.take(cluster.controller.alter_scram_credentials(request))
    return {each.user: (each.error_code, each.error_message) for each in response.results}


@pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS, ids=lambda each: each.name)
def test_credential_is_set_replaced_and_removed(mechanism: ScramMechanism) -> None:
    cluster = Cluster()
    assert alter(cluster, upsertion("a", mechanism.code)) == {"a": OK}
    first = cluster.image.scram["a", mechanism.code]
    assert alter(cluster, upsertion("a", mechanism.code, 8192, b"q" * 32)) == {"a": OK}
    second = cluster.image.scram["a", mechanism.code]
    assert (first.iterations, second.iterations) == (4096, 8192)
    assert first.stored_key != second.stored_key
    assert first.server_key != second.server_key
    assert alter(cluster, deletion("a", mechanism.code)) == {"a": OK}
    assert cluster.image.scram == {}


def test_keys_are_those_of_rfc_7677() -> None:
    """The user and password of the RFC's example; the keys, from its proof and signature."""
    import base64

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = SHA_256.credential(salt, SHA_256.salted_password("pencil", salt, 4096), 4096)
    signed = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = SHA_256.hmac(credential.stored_key, signed)
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert SHA_256.hash(client_key) == credential.stored_key
    assert SHA_256.hmac(credential.server_key, signed) == base64.b64decode(
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (upsertion(""), (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")),
        (deletion(""), (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")),
        (upsertion("u", 0), (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
        (upsertion("u", 3), (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
        (deletion("u", -1), (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")),
        (
            upsertion("u", iterations=4095),
            (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        ),
        (upsertion("u", iterations=4096), OK),
        (upsertion("u", iterations=16384), OK),
        (
            upsertion("u", iterations=16385),
            (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        ),
        (
            deletion("u"),
            (
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            ),
        ),
    ],
)
def test_change_of_one_user_has_kafkas_outcome(
    change: Deletion | Upsertion, outcome: Outcome
) -> None:
    assert alter(Cluster(), change) == {change.name: outcome}


def test_user_that_appears_twice_fails_and_the_others_succeed() -> None:
    cluster = Cluster()
    alter(cluster, upsertion("a"), upsertion("b"))
    outcome = alter(
        cluster,
        deletion("a"),
        deletion("b"),
        upsertion("b", SHA_512.code),
        upsertion("c", SHA_256.code),
        upsertion("c", SHA_512.code),
        upsertion("c", SHA_512.code),
        upsertion("d"),
    )
    assert outcome == {"a": OK, "b": TWICE, "c": TWICE, "d": OK}
    assert set(cluster.image.scram) == {("b", SHA_256.code), ("d", SHA_256.code)}


def test_first_error_of_a_user_is_the_one_that_is_reported() -> None:
    code, _ = alter(Cluster(), deletion("a"), upsertion("a"))["a"]
    assert code == ErrorCode.RESOURCE_NOT_FOUND


def test_cluster_of_an_old_version_has_no_credentials() -> None:
    cluster = Cluster()
    cluster.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=10)])
    assert alter(cluster, upsertion("a")) == {
        "a": (
            ErrorCode.UNSUPPORTED_VERSION,
            "The current metadata.version does not support SCRAM",
        )
    }


def test_snapshot_has_the_credentials_that_its_version_knows() -> None:
    cluster = Cluster()
    alter(cluster, upsertion("a"), upsertion("b", SHA_512.code))
    records = [each for each in image_records(cluster.image) if is_credential(each)]
    assert [(each.name, each.mechanism) for each in records] == [("a", 1), ("b", 2)]
    assert records_at(records, 11) == records
    assert records_at(records, 10) == []
    other = Cluster()
    other.replay(records)
    assert other.image.scram == cluster.image.scram


def is_credential(record: object) -> bool:
    return isinstance(record, UserScramCredentialRecord)


def test_credential_shows_no_key() -> None:
    cluster = Cluster()
    alter(cluster, upsertion("a"))
    credential = cluster.image.scram["a", SHA_256.code]
    assert repr(credential) == "ScramCredential(iterations=4096)"
