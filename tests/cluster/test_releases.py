"""The levels that formatting gives to a new cluster, as Apache Kafka 4.3.0 printed them."""

import pytest

from barnabas.cluster.metadata.feature_levels import BOOTSTRAP, METADATA_VERSION_LATEST
from barnabas.cluster.metadata.releases import (
    METADATA_VERSION_NAMES,
    UnknownLevelError,
    levels_to_format,
    metadata_version_of,
    parse_feature,
)


def test_metadata_version_names_are_those_of_kafka() -> None:
    assert METADATA_VERSION_NAMES[7] == "3.3-IV3"
    assert METADATA_VERSION_NAMES[17] == "3.7-IV2"
    assert METADATA_VERSION_NAMES[METADATA_VERSION_LATEST] == "4.3-IV0"
    assert len(METADATA_VERSION_NAMES) == 24


@pytest.mark.parametrize(
    ("text", "level"), [("3.7", 19), ("3.9-IV0", 21), ("4.0-IV1", 23), ("4.3", 30)]
)
def test_metadata_version_of_a_release_is_its_last(text: str, level: int) -> None:
    assert metadata_version_of(text) == level


def test_metadata_version_of_an_unknown_release_is_refused() -> None:
    with pytest.raises(UnknownLevelError, match=r"Unknown metadata\.version '9\.9'"):
        metadata_version_of("9.9")


@pytest.mark.parametrize(
    ("version", "others"),
    [
        (21, {}),
        (22, {"group.version": 1}),
        (24, {"group.version": 1, "transaction.version": 2}),
    ],
)
def test_levels_to_format_follow_the_metadata_version(version: int, others: dict[str, int]) -> None:
    levels = levels_to_format(None, {"metadata.version": version})
    assert levels == {"metadata.version": version, **others}


def test_levels_to_format_without_options_are_the_latest() -> None:
    assert levels_to_format(None, {}) == BOOTSTRAP


def test_levels_to_format_leave_out_level_zero() -> None:
    assert "group.version" not in levels_to_format(None, {"group.version": 0})


@pytest.mark.parametrize(
    ("release", "features", "message"),
    [
        ("3.9", {"metadata.version": 17}, "to avoid ambiguity"),
        (None, {"foo.version": 1}, "Unsupported feature: foo.version"),
        (None, {"group.version": 7}, "No feature:group.version with feature level 7"),
        (None, {"metadata.version": 31}, "No feature:metadata.version with feature level 31"),
    ],
)
def test_levels_to_format_refuse_unknown_ones(
    release: str | None, features: dict[str, int], message: str
) -> None:
    with pytest.raises(UnknownLevelError, match=message):
        levels_to_format(release, features)


@pytest.mark.parametrize("text", ["group.version", "group.version=x", "group.version=-1"])
def test_feature_without_a_level_is_refused(text: str) -> None:
    with pytest.raises(UnknownLevelError, match="Can't parse feature=level string"):
        parse_feature(text)
