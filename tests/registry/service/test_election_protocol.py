"""The leader among the members of a group."""

from hypothesis import given
from hypothesis import strategies as st

from barnabas.registry.service.election_protocol import (
    ElectionProtocol,
    InstanceAddress,
    InstanceIdentity,
    LeaderAssignment,
    chosen_leader,
)

identities = st.builds(
    InstanceIdentity,
    st.builds(InstanceAddress, st.just("http"), st.sampled_from("abc"), st.integers(1, 3)),
    st.booleans(),
    st.booleans(),
)


def identity(host: str, *, eligible: bool = True, leader: bool = False) -> InstanceIdentity:
    return InstanceIdentity(InstanceAddress("http", host, 8081), eligible, leader)


def test_metadata_has_the_form_that_all_registries_share() -> None:
    assert identity("h").encoded() == (
        b'{"version":1,"host":"h","port":8081,"master_eligibility":true,"scheme":"http",'
        b'"leader":false}'
    )


def test_assignment_names_member_and_identity() -> None:
    found = chosen_leader({"m-1": identity("h").encoded()})
    assert found.encoded() == (
        b'{"version":1,"error":0,"master":"m-1","master_identity":' + identity("h").encoded() + b"}"
    )


def test_smallest_url_leads() -> None:
    members = {"x": identity("b").encoded(), "y": identity("a").encoded()}
    assert chosen_leader(members).member_id == "y"


def test_present_leader_keeps_leading() -> None:
    members = {"x": identity("b", leader=True).encoded(), "y": identity("a").encoded()}
    assert chosen_leader(members).member_id == "x"


def test_member_that_is_not_eligible_does_not_lead() -> None:
    members = {"x": identity("a", eligible=False).encoded(), "y": identity("b").encoded()}
    assert chosen_leader(members).member_id == "y"
    assert chosen_leader({"x": members["x"]}).leader is None


def test_equal_urls_are_an_error_when_no_other_is_left() -> None:
    members = {"x": identity("a").encoded(), "y": identity("a").encoded()}
    assert chosen_leader(members) == LeaderAssignment(None, None, 1)
    assert chosen_leader({**members, "z": identity("b").encoded()}).member_id == "z"


def test_metadata_of_unknown_form_is_left_out() -> None:
    members = {"x": b"\xff", "y": b"[]", "z": identity("c").encoded()}
    assert chosen_leader(members).member_id == "z"


@given(st.lists(identities, max_size=5))
def test_every_member_gets_the_same_readable_assignment(members: list[InstanceIdentity]) -> None:
    metadata = {str(number): each.encoded() for number, each in enumerate(members)}
    assigned = ElectionProtocol(identity("a")).assign("v0", metadata)
    assert set(assigned) == set(metadata)
    assert len(set(assigned.values())) <= 1
    for data in assigned.values():
        found = LeaderAssignment.decoded(data)
        if found.leader is not None:
            assert found.leader in members
            assert found.leader.is_eligible
