"""Values of configurations that are kept elsewhere, in files or in the environment.

    ${file:PATH:KEY}       a property of a properties file
    ${dir:DIRECTORY:FILE}  the content of a file in a directory
    ${env:NAME}            an environment variable

The names `file`, `dir` and `env` are those of providers, which a node's configuration declares as
Kafka's does (`config.providers`). A provider is called with the path and the key of a reference. It
returns None for a key that is missing, and raises OSError, ValueError or ConfigError.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from barnabas.config import properties_file
from barnabas.config.schema import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Provider = Callable[[str, str], str | None]

REFERENCE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Provider, path and key, as Kafka's ConfigTransformer reads them."""

_VALUE_BYTES_MAX: Final = 1 << 20
_PROPERTY: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


@attrs.frozen
class AllowedPaths:
    """The files and directories that references may read, with what is below; None is all.

    `property` names the setting in errors.
    """

    paths: Sequence[Path] | None
    property: str

    def real(self, path: Path) -> Path:
        """Return the real path of a file, links followed. Raises ValueError when it is refused."""
        real = path.resolve()
        if self.paths is None or any(real.is_relative_to(each.resolve()) for each in self.paths):
            return real
        raise ValueError(f"{self.property} does not allow the path {path}")


@attrs.frozen
class FileProvider:
    """Properties of properties files."""

    allowed: AllowedPaths

    def __call__(self, path: str, key: str) -> str | None:
        """Return a property of the file."""
        return properties_file.read(self.allowed.real(Path(path))).get(key)


@attrs.frozen
class DirectoryProvider:
    """Whole files of a directory."""

    allowed: AllowedPaths

    def __call__(self, path: str, key: str) -> str | None:
        """Return the content of a file of the directory."""
        file = self.allowed.real(Path(path) / key)
        if not file.is_file():
            return None
        if file.stat().st_size > _VALUE_BYTES_MAX:
            raise ValueError(f"{file} is larger than {_VALUE_BYTES_MAX} bytes")
        return file.read_text()


@attrs.frozen
class EnvironmentProvider:
    """Environment variables whose whole name matches one of the patterns; None allows all."""

    environment: Mapping[str, str]
    patterns: Sequence[str] | None
    property: str

    def __call__(self, path: str, key: str) -> str | None:
        """Return a variable."""
        if path:
            raise ValueError(f"environment variables have no path, as {path}: write ${{env:NAME}}")
        if self.patterns is not None and not any(re.fullmatch(p, key) for p in self.patterns):
            raise ValueError(f"{self.property} does not allow the variable {key}")
        return self.environment.get(key)


def replace_references(value: str, providers: Mapping[str, Provider]) -> str:
    """Return a value with its references replaced.

    A reference to an unknown provider, or to a key that is missing, stays as it is. Raises what the
    providers raise.
    """

    def replace(match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        found = None if provider is None else provider(match[3] or "", match[4])
        return match[0] if found is None else found

    return REFERENCE.sub(replace, value)


def resolved_properties(
    properties: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return a node's properties with the references replaced.

    Only providers in `config.providers` are known. Raises ConfigError for an unknown class, and for
    a reference that cannot be replaced: its text must not be used as a password.
    """
    providers = _declared(properties, environment)
    resolved: dict[str, str] = {}
    for name, value in properties.items():
        is_declaration = name.startswith(_PROPERTY)
        resolved[name] = value if is_declaration else _resolved(name, value, providers)
    return resolved


def _resolved(name: str, value: str, providers: Mapping[str, Provider]) -> str:
    try:
        text = replace_references(value, providers)
    except (OSError, ValueError, ConfigError) as error:
        raise ConfigError(
            f"Invalid value for configuration {name}: a reference cannot be replaced: {error}",
            name=name,
        ) from None
    for match in REFERENCE.finditer(value):
        if match[1] in providers and match[0] in text:
            raise ConfigError(
                f"Invalid value for configuration {name}: {match[0]} does not exist",
                name=name,
            )
    return text


def _declared(properties: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Provider]:
    """Return the providers that the properties declare, by their names."""
    names = [name.strip() for name in properties.get(_PROPERTY, "").split(",")]
    found: dict[str, Provider] = {}
    for name in filter(None, names):
        stated = f"{_PROPERTY}.{name}.class"
        if stated not in properties:
            raise ConfigError(
                f"Missing configuration {stated}: {_PROPERTY} names {name}; set it to "
                f"{_PACKAGE}FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider",
                name=stated,
            )
        parameters = f"{_PROPERTY}.{name}.param."
        paths, pattern = f"{parameters}allowed.paths", f"{parameters}allowlist.pattern"
        allowed = AllowedPaths(_paths(properties.get(paths)), paths)
        kind = properties[stated].strip().removeprefix(_PACKAGE)
        if kind == "FileConfigProvider":
            found[name] = FileProvider(allowed)
        elif kind == "DirectoryConfigProvider":
            found[name] = DirectoryProvider(allowed)
        elif kind == "EnvVarConfigProvider":
            patterns = _pattern(properties, pattern)
            found[name] = EnvironmentProvider(environment, patterns, pattern)
        else:
            raise ConfigError(
                f"Invalid value {properties[stated]} for configuration {stated}: it must be "
                f"{_PACKAGE}FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider",
                name=stated,
            )
    return found


def _paths(text: str | None) -> list[Path] | None:
    """Return allowed paths; all are allowed when none is stated, as in Kafka."""
    parts = [part.strip() for part in (text or "").split(",")]
    return [Path(part) for part in parts if part] or None


def _pattern(properties: Mapping[str, str], name: str) -> list[str] | None:
    """Return the pattern of a parameter. Raises ConfigError when it is not one."""
    text = properties.get(name)
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(
            f"Invalid value {text} for configuration {name}: {error}", name=name
        ) from None
    return [text]
