"""The end of a run whose time is limited: no test starts after it.

`.ci/run` has 90 minutes, of which a machine of the usual speed needs 22. One that is four times as
slow would be stopped in the middle, and its failures would never be shown. There the last modules
are skipped instead, and the run says how many tests that were.
"""

import time
from typing import Any

import pytest

_REASON = "no test starts after --no-start-after: `make compat` runs all"


class TimeLimit:
    """A plugin of pytest that skips the tests that would start after `end_s`, in s since 1970."""

    def __init__(self, end_s: float) -> None:
        self._end_s = end_s

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip the test before its fixtures start anything."""
        if time.time() > self._end_s:
            pytest.skip(_REASON)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print how many tests did not run."""
        skipped = terminalreporter.stats.get("skipped", [])
        late = sum(_REASON in str(report.longrepr) for report in skipped)
        if late:
            terminalreporter.section("the time of this run is over")
            terminalreporter.write_line(f"{late} tests did not start: `make compat` runs all")
