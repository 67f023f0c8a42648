"""Points in time as people and programs write them."""

from __future__ import annotations

import time
from datetime import datetime

import click

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str, now: float | None = None) -> int:
    """Read ISO 8601 (local time where no zone is said), ms since 1970, or an age as `15m`.

    Returns ms since 1970; `click.UsageError` where it is none of these.
    """
    text = text.strip()
    if text.isdecimal():
        return int(text)
    age, unit = text[:-1].removeprefix("-"), text[-1:]
    if unit in _UNITS_MS and age.isdecimal():
        present = time.time() if now is None else now
        return int(present * 1000) - int(age) * _UNITS_MS[unit]
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"Invalid time {text!r}: write 2026-01-31T12:00:00, 2026-01-31T12:00:00Z, "
            "1769860800000 (ms since 1970) or 15m (ago; also s, h, d)."
        ) from None
