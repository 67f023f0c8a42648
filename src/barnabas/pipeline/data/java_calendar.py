"""Java's calendar in UTC: days to dates and back, Julian before 1582-10-15 and Gregorian after.

Years are astronomical: year 0 is 1 BC.
"""

from typing import Final

import attrs

MILLIS_PER_DAY: Final = 86_400_000
_FIRST_GREGORIAN_DAY: Final = -141_427  # 1582-10-15
_DAYS_TO_MARCH_OF_YEAR_ZERO: Final = 719_468
_JULIAN_OFFSET: Final = 2
_CUTOVER_YEAR: Final = 1582


@attrs.frozen(slots=True)
class CivilTime:
    """A point in time as a calendar shows it. `weekday` counts from Sunday = 1."""

    year: int
    month: int
    day: int
    day_of_year: int
    weekday: int
    hour: int
    minute: int
    second: int
    millisecond: int


def civil_time(ms: int) -> CivilTime:
    """Return the date and time of day of milliseconds since 1970."""
    days, rest = divmod(ms, MILLIS_PER_DAY)
    year, month, day = date_of(days)
    seconds, millisecond = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    day_of_year = days - days_of(year, 1, 1) + 1
    return CivilTime(
        year, month, day, day_of_year, (days + 4) % 7 + 1, hour, minute, second, millisecond
    )


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of days since 1970."""
    shifted = days + _DAYS_TO_MARCH_OF_YEAR_ZERO
    if days >= _FIRST_GREGORIAN_DAY:
        century, rest = divmod(shifted, 146_097)
        year_of_era = (rest - rest // 1460 + rest // 36524 - rest // 146_096) // 365
        day_of_year = rest - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = century * 400 + year_of_era
    else:
        cycle, rest = divmod(shifted + _JULIAN_OFFSET, 1461)
        year_of_cycle = (rest - rest // 1460) // 365
        day_of_year = rest - 365 * year_of_cycle
        year = cycle * 4 + year_of_cycle
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return year + (month <= 2), month, day


def days_of(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date; months and days beyond their range carry over."""
    carried, month_index = divmod(month - 1, 12)
    year += carried
    gregorian = _days_of_month(year, month_index, is_julian=False) + day - 1
    if year > _CUTOVER_YEAR or gregorian >= _FIRST_GREGORIAN_DAY:
        return gregorian
    julian = _days_of_month(year, month_index, is_julian=True) + day - 1
    return julian if julian < _FIRST_GREGORIAN_DAY or year < _CUTOVER_YEAR else gregorian


def _days_of_month(year: int, month_index: int, *, is_julian: bool) -> int:
    year_from_march = year - (month_index < 2)
    day_of_year = (153 * ((month_index + 10) % 12) + 2) // 5
    days = year_from_march * 365 + year_from_march // 4 + day_of_year
    if is_julian:
        return days - _DAYS_TO_MARCH_OF_YEAR_ZERO - _JULIAN_OFFSET
    return days - year_from_march // 100 + year_from_march // 400 - _DAYS_TO_MARCH_OF_YEAR_ZERO
