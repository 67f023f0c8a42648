"""The topics between queries of an app: which query writes one, and which queries it connects."""

from barnabas.pipeline.streams.app_chains import AppChains
from barnabas.pipeline.streams.operator_chains import ChainedRecords
from barnabas.pipeline.streams.serdes import Bytes
from barnabas.pipeline.streams.topic_reading import OnError, TopicInput


def given(topic: str) -> TopicInput:
    return TopicInput(topic, Bytes(), Bytes(), None, OnError.FAIL, "", "earliest", 10)


CLICKS, USERS, COUNTS, LEVELS, UNREAD = map(
    given, ("clicks", "users", "counts", "levels", "unread")
)
QUERIES = {
    "copy": (CLICKS,),
    "counts": (CLICKS, USERS),
    "levels": (COUNTS,),
    "unread": (LEVELS,),
    "per-level": (LEVELS,),
    "per-count": (COUNTS, USERS),
    "other": (USERS,),
}


def chains(*topics: TopicInput) -> AppChains:
    return AppChains({each.topic: ChainedRecords(None, (each,)) for each in topics})


def test_topic_has_the_queries_that_read_it() -> None:
    found = chains(COUNTS, LEVELS, UNREAD).readers(QUERIES)
    assert found == {
        "counts": ["levels", "per-count"],
        "levels": ["unread", "per-level"],
        "unread": [],
    }


def test_records_of_a_topic_come_from_topics_of_others() -> None:
    found = chains(COUNTS, LEVELS)
    assert list(found.sources("levels", QUERIES)) == ["clicks", "users"]
    assert list(found.sources("counts", QUERIES)) == ["clicks", "users"]


def test_reset_of_a_query_concerns_all_that_topics_connect_with_it() -> None:
    found = chains(COUNTS, LEVELS)
    every = ["counts", "levels", "unread", "per-level", "per-count"]
    assert found.connected(["per-level"], QUERIES) == every
    assert found.connected(["counts"], QUERIES) == every
    assert found.connected(["copy", "other"], QUERIES) == ["copy", "other"]
    assert AppChains().connected(["levels"], QUERIES) == ["levels"]


def test_query_whose_topic_no_query_reads_is_not_needed() -> None:
    without = {name: inputs for name, inputs in QUERIES.items() if name != "per-level"}
    found = chains(COUNTS, LEVELS, UNREAD)
    assert found.needed(QUERIES) == [name for name in QUERIES if name != "unread"]
    assert found.needed(without) == ["copy", "counts", "per-count", "other"]
