"""Releases of Kafka: the names of metadata.version levels, and the features that each release has.

`barnabas format --release-version 4.0 --feature group.version=0` chooses the levels of a new
cluster with these functions.
"""

from collections.abc import Mapping

from barnabas.cluster.metadata.feature_levels import (
    BOOTSTRAP,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    METADATA_VERSION_MIN,
    SUPPORTED,
)

# The versions of each release, from level METADATA_VERSION_MIN on: 3.3 begins with its IV3.
_FIRST_RELEASE = ("3.3", (3,))
_LATER_RELEASES = (
    ("3.4", 1), ("3.5", 3), ("3.6", 3), ("3.7", 5), ("3.8", 1), ("3.9", 1), ("4.0", 4), ("4.1", 2),
    ("4.2", 2), ("4.3", 1),
)  # fmt: skip

# The metadata.version from which formatting finalizes the latest level of a feature by default
# (`FeatureVersion.bootstrapMetadataVersion`).
_FINALIZED_SINCE: Mapping[str, int] = {
    "group.version": 22,
    "transaction.version": 24,
    "eligible.leader.replicas.version": 26,
}


class UnknownLevelError(ValueError):
    """A release or feature level that this server does not have; the message is one line."""


def _names() -> dict[int, str]:
    release, versions = _FIRST_RELEASE
    names = [f"{release}-IV{number}" for number in versions]
    for release, count in _LATER_RELEASES:
        names += [f"{release}-IV{number}" for number in range(count)]
    return dict(enumerate(names, METADATA_VERSION_MIN))


METADATA_VERSION_NAMES: Mapping[int, str] = _names()
"""The name of each supported level of metadata.version: 30 is 4.3-IV0."""


def metadata_version_of(release: str) -> int:
    """Return the level of a name as 4.0-IV3, or the last level of a release as 4.0.

    Raises UnknownLevelError for another text.
    """
    levels = [
        level
        for level, name in METADATA_VERSION_NAMES.items()
        if release in (name, name.partition("-")[0])
    ]
    if not levels:
        raise UnknownLevelError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: "
            + ", ".join(METADATA_VERSION_NAMES.values())
        )
    return max(levels)


def parse_feature(text: str) -> tuple[str, int]:
    """Return the name and level of `name=level`. Raises UnknownLevelError."""
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise UnknownLevelError(f"Can't parse feature=level string {text}: equals sign not found.")
    if not level.isdecimal():
        raise UnknownLevelError(
            f"Can't parse feature=level string {text}: {level} is not a number."
        )
    return name, int(level)


def levels_to_format(release: str | None, features: Mapping[str, int]) -> dict[str, int]:
    """Return the levels that a new cluster finalizes, by feature.

    Levels that are not given are those of the release. A level of 0 is not written, as in Kafka.
    Raises UnknownLevelError.
    """
    if release is not None and METADATA_VERSION in features:
        raise UnknownLevelError(
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
        )
    for name, level in features.items():
        _check_supported(name, level)
    version = features.get(METADATA_VERSION, METADATA_VERSION_LATEST)
    if release is not None:
        version = metadata_version_of(release)
    defaults = {
        name: level
        for name, level in BOOTSTRAP.items()
        if name != METADATA_VERSION and version >= _FINALIZED_SINCE[name]
    }
    levels = {METADATA_VERSION: version, **defaults, **features}
    return {name: level for name, level in levels.items() if level and name != KRAFT_VERSION}


def _check_supported(name: str, level: int) -> None:
    if name not in SUPPORTED:
        known = ", ".join(sorted(set(SUPPORTED) - {METADATA_VERSION}))
        raise UnknownLevelError(f"Unsupported feature: {name}. Supported features are: {known}")
    lowest, highest = SUPPORTED[name]
    if not lowest <= level <= highest:
        raise UnknownLevelError(
            f"No feature:{name} with feature level {level}; supported are {lowest} to {highest}"
        )
