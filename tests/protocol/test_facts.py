"""The declarations equal Kafka's, and the comparison detects every kind of difference."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.protocol.apis import API, ApiKey
from barnabas.protocol.errors import ErrorCode
from tests.protocol.facts import all_messages, describe, differences, expected, facts, versions_in


def test_declared_messages_are_exactly_those_of_kafka() -> None:
    assert sorted(all_messages()) == sorted(facts()["messages"])
    assert len(all_messages()) == 273


@pytest.mark.parametrize("name", sorted(facts()["messages"]))
def test_declaration_equals_kafkas(name: str) -> None:
    assert differences(expected(name), describe(all_messages()[name])) == []


def test_error_codes_equal_kafkas() -> None:
    theirs = {row["name"]: (row["code"], row["retriable"]) for row in facts()["errors"]}
    assert {code.name: (code.value, code.retriable) for code in ErrorCode} == theirs
    assert len(theirs) == 135


def described_api(api: ApiKey) -> dict[str, Any]:
    versions = range(api.min_version, api.max_version + 1)
    return {
        "key": api.key,
        "name": api.name,
        "versions": [api.min_version, api.max_version],
        "listeners": [listener.upper() for listener in api.listeners],
        "latest_version_unstable": api.latest_unstable,
        "advertised": list(api.advertised),
        "request_headers": {v: api.request_header_version(v) for v in versions},
        "response_headers": {v: api.response_header_version(v) for v in versions},
    }


def expected_api(fact: dict[str, Any]) -> dict[str, Any]:
    headers = {
        which: {v: header for span, header in fact[key].items() for v in versions_in(span)}
        for which, key in (
            ("request_headers", "request_header_versions"),
            ("response_headers", "response_header_versions"),
        )
    }
    return {
        **{k: fact[k] for k in ("key", "name", "versions", "listeners", "latest_version_unstable")},
        "advertised": fact["api_versions_response"][fact["listeners"][0]],
        **headers,
    }


def live_apis() -> list[dict[str, Any]]:
    return [fact for fact in facts()["apis"] if fact["valid"]]


def test_api_table_has_exactly_the_apis_of_kafka() -> None:
    assert list(API) == [fact["key"] for fact in live_apis()]
    assert len(API) == 89


@pytest.mark.parametrize("fact", live_apis(), ids=lambda fact: fact["name"])
def test_api_has_kafkas_versions_listeners_and_headers(fact: dict[str, Any]) -> None:
    api = API[fact["key"]]
    assert differences(expected_api(fact), described_api(api)) == []
    for message in (api.request_type, api.response_type):
        assert api.key == message.API_KEY
        assert tuple(message.VERSIONS) == (api.min_version, api.max_version)
        assert (message.FLEXIBLE.low if message.FLEXIBLE.high >= 0 else None) == (
            api.flexible_version
        )


def schema(fact: dict[str, Any], version: int = 18) -> list[dict[str, Any]]:
    return fact["schemas"][str(version)]


def partition(fact: dict[str, Any]) -> list[dict[str, Any]]:
    return schema(fact)[6]["fields"][1]["fields"]


PLANTED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a version more": lambda fact: fact.update(versions=[4, 19]),
    "a version less": lambda fact: fact["schemas"].pop("18"),
    "another api key": lambda fact: fact.update(apiKey=2),
    "flexible from another version": lambda fact: fact["flexible"].remove(12),
    "a field missing": lambda fact: schema(fact).pop(0),
    "a field missing in a struct": lambda fact: partition(fact).pop(0),
    "a field missing in one version": lambda fact: schema(fact, 5).pop(),
    "another name": lambda fact: schema(fact)[0].update(name="max_wait"),
    "another order": lambda fact: schema(fact).reverse(),
    "another type": lambda fact: schema(fact)[0].update(type="INT64"),
    "another element": lambda fact: schema(fact)[7]["fields"][1].update(of="INT64"),
    "a string that is not compact": lambda fact: schema(fact)[8].update(type="STRING"),
    "another struct": lambda fact: schema(fact)[6].update(struct="Topic"),
    "nullable": lambda fact: schema(fact)[6].update(nullable=True),
    "not nullable": lambda fact: schema(fact)[-1]["fields"][0].pop("nullable"),
    "another default": lambda fact: partition(fact)[1].update(default=0),
    "a default of another type": lambda fact: schema(fact)[0].update(default=False),
    "another default of a tagged field": lambda fact: partition(fact)[-1]["fields"][1].update(
        default=-1
    ),
    "another tag": lambda fact: schema(fact)[-1]["fields"][1].update(tag=2),
    "a tagged field missing": lambda fact: schema(fact)[-1]["fields"].pop(),
    "a tagged field that is not": lambda fact: schema(fact).insert(
        0, {**schema(fact)[-1]["fields"].pop(0)}
    ),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=list(PLANTED))
def test_comparison_detects_a_planted_difference(plant: Callable[[dict[str, Any]], Any]) -> None:
    fact = copy.deepcopy(expected("FetchRequest"))
    ours = describe(all_messages()["FetchRequest"])
    assert differences(fact, ours) == []
    plant(fact)
    assert differences(fact, ours)


def test_comparison_detects_a_planted_difference_in_a_null_marker() -> None:
    name = "ConsumerGroupMemberMetadataValue"
    fact = copy.deepcopy(expected(name))
    fact["schemas"]["0"][-1]["fields"][0]["null_marker"] = {"type": "INT8"}
    assert differences(fact, describe(all_messages()[name]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("versions", [3, 14]),
        ("listeners", ["BROKER", "CONTROLLER"]),
        ("latest_version_unstable", True),
        ("api_versions_response", {"BROKER": [3, 13]}),
        ("request_header_versions", {"3-9": 1, "10-13": 2}),
        ("response_header_versions", {"3-13": 1}),
    ],
)
def test_comparison_detects_a_planted_difference_in_an_api(key: str, value: object) -> None:
    fact = next(fact for fact in live_apis() if fact["name"] == "Produce")
    assert differences(expected_api({**fact, key: value}), described_api(API[0]))
