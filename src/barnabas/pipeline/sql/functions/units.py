"""Units of time, as the functions of dates take them: DATEADD(DAYS, 1, d)."""

from typing import Final

MILLISECONDS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
DAY_MS: Final = MILLISECONDS["DAY"]
UNITS: Final = frozenset({*MILLISECONDS, *(f"{name}S" for name in MILLISECONDS)})


def unit_ms(unit: str) -> int:
    """Return the milliseconds of a unit, in singular or plural."""
    return MILLISECONDS[unit.removesuffix("S")]
