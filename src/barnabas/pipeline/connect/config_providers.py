"""References in the configurations of jobs, and what they may read.

A provider (see `barnabas.config.value_providers`) answers only what the settings allow: files and
directories below the paths of `config.providers.allowed.paths`, variables whose whole name
matches a pattern of `config.providers.allowed.env`. Both are empty by default, so that a client of
the REST API cannot read the runner's files.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from barnabas.config import ConfigError
from barnabas.config.value_providers import (
    REFERENCE,
    AllowedPaths,
    DirectoryProvider,
    EnvironmentProvider,
    FileProvider,
    replace_references,
)
from barnabas.pipeline.definitions.config_types import ConfigValueError

_PATHS = "config.providers.allowed.paths"
_VARIABLES = "config.providers.allowed.env"


@attrs.frozen
class ProviderLimits:
    """Limits of what references may read."""

    paths: Sequence[Path] = ()
    variables: Sequence[str] = ()
    """Patterns of names of environment variables."""


class ConfigProviders:
    """Replaces references by their values."""

    def __init__(self, limits: ProviderLimits, environment: Mapping[str, str] = os.environ) -> None:
        allowed = AllowedPaths(limits.paths, _PATHS)
        self._providers = {
            "env": EnvironmentProvider(environment, limits.variables, _VARIABLES),
            "file": FileProvider(allowed),
            "dir": DirectoryProvider(allowed),
        }

    def resolve(self, config: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the configuration with all references replaced.

        A reference to an unknown provider, or to a key that is missing, stays as it is. Raises
        ConfigValueError for one that is not allowed or cannot be read.
        """
        return {name: self._resolved(name, value) for name, value in config.items()}

    def _resolved(self, name: str, value: str | None) -> str | None:
        if value is None or "${" not in value:
            return value
        try:
            return replace_references(value, self._providers)
        except (OSError, ValueError, ConfigError) as error:
            raise ConfigValueError.of(name, value, str(error)) from None


def has_reference(value: str | None) -> bool:
    """True when a value refers to a provider."""
    return value is not None and REFERENCE.search(value) is not None
