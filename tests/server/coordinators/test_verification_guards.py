"""`Guards`: a verified write is refused when its transaction may have ended meanwhile."""

from barnabas.server.coordinators.transactions.verification_guards import Guards


def test_change_of_leader_breaks_the_guards_of_its_partition_only() -> None:
    guards = Guards()
    broken = [guards.hold("t", 0, producer) for producer in (1, 2)]
    kept = [guards.hold("t", 1, 1), guards.hold("u", 0, 1)]
    guards.leader_changed("t", 0)
    assert [guard.is_broken for guard in (*broken, *kept)] == [True, True, False, False]
    assert not guards.hold("t", 0, 1).is_broken


def test_release_of_a_broken_guard_keeps_the_next_one() -> None:
    guards = Guards()
    broken = guards.hold("t", 0, 1)
    guards.transaction_ended("t", 0, 1)
    kept = guards.hold("t", 0, 1)
    guards.release("t", 0, 1, broken)
    assert (broken.is_broken, kept.is_broken, len(guards)) == (True, False, 1)
