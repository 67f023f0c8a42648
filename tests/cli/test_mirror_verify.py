"""`barnabas mirror verify`: equal logs, the first difference, and a mirror that is behind."""

from collections.abc import Callable, Iterator

import pytest

from barnabas.testing import Node
from barnabas.testing.batches import batch, marker
from barnabas.testing.mirrored import placed
from tests.cli.conftest import Barnabas, Outcome
from tests.server import mirror_flow as flow

SOURCE_LOG = [
    placed(batch(b"a", b"b", producer=(3, 0, 7)), 4),
    placed(batch(b"aborted", producer=(2000, 6, 5), transactional=True), 10),
    placed(marker(2000, 6, commit=False), 12),
    placed(batch(b"c"), 13),
]


@pytest.fixture
def source() -> Iterator[Node]:
    """A cluster that has the source's log, which is a mirror, too."""
    with Node() as node:
        assert flow.create_mirror(node.bootstrap) == 0
        assert flow.copy(node.bootstrap, SOURCE_LOG, 0).error_code == 0
        yield node


@pytest.fixture
def target() -> Iterator[Node]:
    with Node() as node:
        assert flow.create_mirror(node.bootstrap) == 0
        yield node


@pytest.fixture
def verify(barnabas: Barnabas, source: Node, target: Node) -> Callable[..., Outcome]:
    """Run the command on both clusters."""

    def run(*options: str, topics: str = "m") -> Outcome:
        sides = ["--from", source.bootstrap, "--to", target.bootstrap]
        return barnabas("mirror", "verify", *sides, "--topics", topics, *options)

    return run


def test_equal_logs_are_equal_and_the_rest_is_behind(verify, target: Node) -> None:
    flow.copy(target.bootstrap, SOURCE_LOG[:3], 0)
    found = {
        "topic": "m",
        "partition": 0,
        "start": 0,
        "end": 13,
        "behind": 1,
        "batches": 3,
        "difference": None,
    }
    outcome = verify("--json")
    assert (outcome.code, outcome.data) == (0, [found])
    assert verify().lines[-1] == "3 batches equal in 1 partition"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            [SOURCE_LOG[0], placed(batch(b"other"), 10), *SOURCE_LOG[2:]],
            "m-0, offset 10: the source has 1 records up to offset 10 with crc",
        ),
        (SOURCE_LOG[1:], "m-0, offset 4: the source has 2 records up to offset 5"),
        ([*SOURCE_LOG[:3], placed(batch(b"d"), 20)], "m-0, offset 13: the source has 1 records"),
    ],
)
def test_first_difference_is_shown(
    verify, source: Node, target: Node, log: list[bytes], said: str
) -> None:
    assert flow.copy(target.bootstrap, log, 0).error_code == 0
    flow.copy(source.bootstrap, [placed(batch(b"later"), 20)], 14)
    outcome = verify()
    assert (outcome.code, said in outcome.out) == (1, True), outcome


def test_logs_are_compared_where_both_have_them(verify, target: Node) -> None:
    assert flow.start_at(target.bootstrap, 10) == (0, 10)
    assert flow.copy(target.bootstrap, SOURCE_LOG[1:], 10).error_code == 0
    (found,) = verify("--json").data
    assert (found["start"], found["batches"], found["difference"]) == (10, 3, None)


def test_pattern_that_matches_nothing_is_an_error(verify) -> None:
    outcome = verify(topics="x.*")
    assert outcome.code == 1
    assert "no topic of both clusters matches 'x.*'" in outcome.err
    assert verify(topics="(").code == 2
