"""The table and the plot of a run."""

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.rows import Figure
from compat_tests.cluster.steps.trial import commit_of_the_tree

_BAR_WIDTH, _ROW_HEIGHT, _LABEL_WIDTH = 420, 22, 330

# The target of each row.
TARGETS: Mapping[str, str] = {
    "start to first answer": "≤ 0.35 s",
    "memory, idle": "≤ 50 MB",
    "memory, after the rows above": "≤ 100 MB",
    "produce 100 B": "≥ 1.1 x Kafka",
    "produce 100 B, server CPU": "≤ 0.2 s per M",
    "produce 1000 B": "≥ 1.5 x Kafka",
    "produce 1000 B, server CPU": "≤ 1.2 s per GB",
    "consume 100 B": "≥ 1.0 x Kafka",
    "consume 100 B, server CPU": "≤ 1.0 x Kafka",
    "1 record a request, 1 producer": "≥ 1.2 x Kafka",
    "1 record a request, 1 producer, server CPU": "≤ 45 µs",
    "1 record a request, 50 producers": "≥ 1.0 x Kafka",
    "1 record a request, 50 producers, server CPU": "≤ 50 µs",
    "ack latency, p50": "≤ 0.2 ms",
    "ack latency, p99": "≤ 0.6 ms",
    "produce-to-consume latency, p50": "≤ 0.3 ms",
    "produce-to-consume latency, p99": "≤ 0.8 ms",
    "create 1,000 partitions": "≤ 0.1 s",
    "first write to each of 1,000": "≤ 1 s",
    "start with TLS and SCRAM": "≤ 60 ms more than without",
    "TLS connections": "≥ 1.0 x Kafka",
    "SCRAM logins": "≥ 1.0 x Kafka",
    "idle TLS connection": "≤ 60 kB",
    "TLS: produce 1000 B": "≥ 1.0 x Kafka",
    "TLS: produce 1000 B, server CPU": "≤ 1.8 s per GB",
    "TLS: consume 100 B": "≥ 1.0 x Kafka",
    "TLS: 1 record a request, 1 producer, server CPU": "≤ 3 x plain",
    "new decision, 10,000 ACLs": "≤ 30 µs",
    "cached decision, 10,000 ACLs": "≤ 3 µs",
}

Runs = Mapping[str, Sequence[Figure]]
"""Each server's figures of all rounds."""


def medians(figures: Sequence[Figure]) -> dict[str, Figure]:
    """One figure per row: the median of its rounds."""
    by_row: dict[str, list[Figure]] = {}
    for figure in figures:
        by_row.setdefault(figure.row, []).append(figure)
    return {
        row: Figure(row, found[0].unit, found[0].better, median(f.value for f in found))
        for row, found in by_row.items()
    }


def gain(ours: Figure, theirs: Figure) -> float:
    """Return how many times better barnabas is; above 1 is better for every unit."""
    if ours.better == "more":
        return ours.value / theirs.value if theirs.value else float("inf")
    return theirs.value / ours.value if ours.value else float("inf")


def table(runs: Runs) -> str:
    """The figures as a Markdown table."""
    ours = medians(runs["barnabas"])
    theirs = medians(runs.get("kafka", ()))
    lines = [
        "| what | unit | Apache Kafka 4.3.0 | barnabas | times better | to reach |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for row, figure in ours.items():
        other = theirs.get(row)
        kafka = "-" if other is None else _number(other.value)
        times = "-" if other is None else f"{gain(figure, other):.2f}"
        target = TARGETS.get(row, "")
        lines.append(
            f"| {row} | {figure.unit} | {kafka} | {_number(figure.value)} | {times} | {target} |"
        )
    return "\n".join(lines)


def heading(rounds: int) -> str:
    """Return what a page of results begins with: when, where and how it was measured."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = (
        f"Commit {commit_of_the_tree()}, {os.cpu_count()} CPUs, load average at the end "
        f"{os.getloadavg()[0]:.1f}, {platform.system()} {platform.machine()}"
    )
    return (
        f"# Measured {when}\n\n"
        f"{machine}, Python {platform.python_version()}; client and server on one machine over "
        f"loopback; librdkafka as the client, acks=all; the median of {rounds} rounds, the "
        "servers in turn. Ratios count, absolute figures belong to the machine. One record a "
        "request is pipelined without a limit on requests in flight; latencies are measured with "
        "one record in flight."
    )


def write(directory: Path, runs: Runs, rounds: int) -> None:
    """Write results.md and results.svg."""
    ours = medians(runs["barnabas"])
    theirs = medians(runs.get("kafka", ()))
    text = f"{heading(rounds)}\n\n{table(runs)}\n"
    if theirs:
        text += "\n![How many times better than Apache Kafka](results.svg)\n"
        (directory / "results.svg").write_text(_plot(ours, theirs))
    (directory / "results.md").write_text(text)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _plot(ours: Mapping[str, Figure], theirs: Mapping[str, Figure]) -> str:
    """Bars of the ratios, on a logarithmic scale around 1."""
    rows = [(row, gain(figure, theirs[row])) for row, figure in ours.items() if row in theirs]
    height = (len(rows) + 2) * _ROW_HEIGHT
    middle = _LABEL_WIDTH + _BAR_WIDTH // 3
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LABEL_WIDTH + _BAR_WIDTH + 60}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{middle}" y="16" text-anchor="middle">times better than Apache Kafka</text>',
        f'<line x1="{middle}" y1="{_ROW_HEIGHT}" x2="{middle}" y2="{height - 8}" stroke="#888"/>',
    ]
    for index, (row, times) in enumerate(rows):
        y = (index + 1) * _ROW_HEIGHT
        parts += _bar(row, times, y, middle)
    return "\n".join([*parts, "</svg>\n"])


def _bar(row: str, times: float, y: int, middle: int) -> list[str]:
    from math import log2

    length = max(-3.0, min(6.0, log2(times) if times > 0 else -3.0)) * _BAR_WIDTH / 9
    x, width = (middle, length) if length >= 0 else (middle + length, -length)
    colour = "#2a7" if times >= 1 else "#c63"
    end = middle + max(length, 0) + 6
    return [
        f'<text x="{_LABEL_WIDTH - 60}" y="{y + 15}" text-anchor="end">{row}</text>',
        f'<rect x="{x:.1f}" y="{y + 4}" width="{max(width, 1):.1f}" height="14" fill="{colour}"/>',
        f'<text x="{end:.1f}" y="{y + 15}">{times:.2f}</text>',
    ]
