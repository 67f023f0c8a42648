"""Points in time on the command line."""

from __future__ import annotations

import time
from datetime import datetime

import click

from barnabas.cli.parameter_types import INT64_MAX

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE_DIGITS_MAX = 9


def parse_time(text: str, now: float | None = None) -> int:
    """Parse ISO 8601 (local time without a zone), ms since 1970, or an age such as `15m`.

    Returns ms since 1970. Raises click.UsageError for any other text.
    """
    text = text.strip()
    if text.isdecimal() and int(text) <= INT64_MAX:
        return int(text)
    age, unit = text[:-1].removeprefix("-"), text[-1:]
    if unit in _UNITS_MS and age.isdecimal() and len(age) <= _AGE_DIGITS_MAX:
        present = time.time() if now is None else now
        return int(present * 1000) - int(age) * _UNITS_MS[unit]
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"Invalid time {text!r}: use 2026-01-31T12:00:00, 2026-01-31T12:00:00Z, "
            "1769860800000 (ms since 1970), or an age such as 15m (units s, m, h, d)."
        ) from None
