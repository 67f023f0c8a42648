"""The example of docs/streams-kernels.md, as a plain function."""

import re
from pathlib import Path
from typing import Any

from tests.pipeline.streams.kernels.kernel_runs import record, run

PAGE = Path(__file__).parents[4] / "docs" / "streams-kernels.md"


def test_processor_of_the_page_sends_the_latest_value_once_a_minute() -> None:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, names)
    taken = [
        record(b"a", value, time_ms) for value, time_ms in [(1, 0), (2, 9), (3, 59), (4, 60_000)]
    ]
    found = run(names["kernel"], taken)
    assert [(row.key, row.value) for row in found] == [(b"a", 1), (b"a", 4)]
