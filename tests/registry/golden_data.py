"""The answers and records of the reference registry, and the differences that are allowed."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "registry"


def golden_lines(name: str) -> list[dict[str, Any]]:
    """Return the objects of a compressed file of lines of JSON."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@cache
def allowed_differences() -> dict[int, int]:
    """Return the requests that we answer otherwise, with our status."""
    allowed: dict[int, int] = {}
    for line in (DATA / "allowed_differences.txt").read_text().splitlines():
        if not line.startswith("#"):
            numbers, status, _ = line.split(" | ")
            allowed |= {int(number): int(status) for number in numbers.split()}
    return allowed
