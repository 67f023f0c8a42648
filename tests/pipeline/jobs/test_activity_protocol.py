"""The choice of the active runner."""

from barnabas.pipeline.jobs.core.activity_protocol import ActivityProtocol, role_of


def test_first_runner_is_active_and_a_later_one_stands_by() -> None:
    first, second = (ActivityProtocol("configs", f"http://{each}") for each in ("one", "two"))
    alone = first.assign("", {"m2": first.protocols()[0][1]})
    assert role_of(alone["m2"]).is_active
    first.is_active = True
    members = {"m2": first.protocols()[0][1], "m1": second.protocols()[0][1]}
    both = second.assign("", members)
    assert role_of(both["m2"]).is_active
    assert not role_of(both["m1"]).is_active
    assert role_of(both["m1"]).active_url == "http://one"


def test_two_runners_that_claim_the_partition_get_one_active() -> None:
    claims = [ActivityProtocol("configs", f"http://{each}") for each in ("one", "two")]
    for each in claims:
        each.is_active = True
    members = {str(place): each.protocols()[0][1] for place, each in enumerate(claims)}
    roles = [role_of(part) for part in claims[0].assign("", members).values()]
    assert sum(role.is_active for role in roles) == 1


def test_empty_assignment_is_standby() -> None:
    assert not role_of(b"").is_active
