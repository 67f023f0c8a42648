"""Settings and state of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def _no_properties() -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class SessionSettings:
    """The cluster, and where state is kept; `name` is that of the script."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=_no_properties)
    name: str = "sql"
    state: Path | None = None
    master: str = "local[*]"
    spark: Mapping[str, str] = field(default_factory=_no_properties)
    registry: str = ""
    """The address of the schema registry, or an empty text."""


@dataclass
class SessionState:
    """Variables (DEFINE) and properties (SET) of one script, prompt or request."""

    variables: dict[str, str] = field(default_factory=_no_properties)
    properties: dict[str, str] = field(default_factory=_no_properties)


def change(values: dict[str, str], kind: str, name: str, value: str | None) -> str:
    """Set a variable or a property, or remove it for None; return what was done as a text."""
    if value is not None:
        values[name] = value
        return f"set the {kind} {name}"
    if values.pop(name, None) is None:
        return f"the {kind} {name} was not set"
    return f"removed the {kind} {name}"
