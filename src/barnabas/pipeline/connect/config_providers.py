"""Values of configurations that are kept elsewhere, in files or in the environment.

    ${env:NAME}            an environment variable of the runner
    ${file:PATH:KEY}       a property of a properties file
    ${dir:DIRECTORY:FILE}  the content of a file in a directory

A provider answers only what the runner's settings allow: files and directories below the paths of
`config.providers.allowed.paths`, variables whose whole name matches a pattern of
`config.providers.allowed.env`. Both are empty by default, so that a client of the REST API cannot
read the runner's files.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from barnabas.config import ConfigError, properties_file
from barnabas.pipeline.definitions.config_types import ConfigValueError

REFERENCE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Provider, path and key, as Kafka's ConfigTransformer reads them."""

_VALUE_BYTES_MAX: Final = 1 << 20


@attrs.frozen
class ProviderLimits:
    """Limits of what references may read."""

    paths: Sequence[Path] = ()
    variables: Sequence[str] = ()
    """Patterns of names of environment variables."""


class ConfigProviders:
    """Replaces references by their values."""

    def __init__(self, limits: ProviderLimits, environment: Mapping[str, str] = os.environ) -> None:
        self._limits = limits
        self._environment = environment
        self._providers: dict[str, Callable[[str, str], str | None]] = {
            "env": self._variable,
            "file": self._property,
            "dir": self._file,
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

        def replace(match: re.Match[str]) -> str:
            provider = self._providers.get(match[1])
            if provider is None:
                return match[0]
            try:
                found = provider(match[3] or "", match[4])
            except (OSError, ValueError, ConfigError) as error:
                raise ConfigValueError.of(name, value, str(error)) from None
            return match[0] if found is None else found

        return REFERENCE.sub(replace, value)

    def _variable(self, _path: str, key: str) -> str | None:
        if not any(re.fullmatch(pattern, key) for pattern in self._limits.variables):
            raise ValueError(f"config.providers.allowed.env does not allow the variable {key}")
        return self._environment.get(key)

    def _property(self, path: str, key: str) -> str | None:
        return properties_file.read(self._allowed(Path(path))).get(key)

    def _file(self, path: str, key: str) -> str | None:
        file = self._allowed(Path(path) / key)
        if not file.is_file():
            return None
        if file.stat().st_size > _VALUE_BYTES_MAX:
            raise ValueError(f"{file} is larger than {_VALUE_BYTES_MAX} bytes")
        return file.read_text()

    def _allowed(self, path: Path) -> Path:
        """Return the real path of a file, links followed."""
        real = path.resolve()
        if not any(real.is_relative_to(allowed.resolve()) for allowed in self._limits.paths):
            raise ValueError(f"config.providers.allowed.paths does not allow the path {path}")
        return real


def has_reference(value: str | None) -> bool:
    """True when a value refers to a provider."""
    return value is not None and REFERENCE.search(value) is not None
