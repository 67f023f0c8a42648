"""Hiding secrets of configurations in answers and log lines.

A property is secret when its definition says so (type PASSWORD), or when its name does. A client
that reads a configuration, changes it and writes it back sends the mask: it stands for the value
that is stored.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from barnabas.pipeline.connect.config_providers import has_reference

MASK: Final = "[hidden]"

_SECRET_NAME: Final = re.compile(
    r"password|secret|passphrase|credential|jaas\.config|basic\.auth\.user\.info"
    r"|(^|[._-])token$|private\.?key|ssl\.keystore\.key|access\.?key",
    re.IGNORECASE,
)


def is_secret(name: str, passwords: Collection[str] = ()) -> bool:
    """True for a property whose value must not be shown."""
    return name in passwords or _SECRET_NAME.search(name) is not None


def masked(
    config: Mapping[str, str | None], passwords: Collection[str] = ()
) -> dict[str, str | None]:
    """Return a configuration to show; references to providers stay readable."""
    return {
        name: MASK if value and is_secret(name, passwords) and not has_reference(value) else value
        for name, value in config.items()
    }


def unmasked(
    config: Mapping[str, str | None], stored: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return a configuration in which each mask is replaced by the stored value."""
    return {
        name: stored[name] if value == MASK and name in stored else value
        for name, value in config.items()
    }
