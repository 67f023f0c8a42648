"""Generated web-access events: the input of the Spark tests, equal for equal seeds.

Lines look like an access log in JSON: client, path, time and outcome. The traffic has a day's
shape, a few frequent visitors and many rare ones, and latencies with a long tail, so that counts
and sums by path, status and visitor are worth computing.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

START_MS = 1_760_000_000_000
PATHS = [
    *("/", "/about", "/login", "/logout", "/search", "/cart", "/checkout", "/api/items"),
    *(f"/items/{number}" for number in range(200)),
    *(f"/static/{name}" for name in ("app.js", "app.css", "logo.svg", "font.woff2")),
]
STATUSES = [200] * 88 + [304] * 5 + [302] * 3 + [404] * 3 + [500]
AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/145.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_7) AppleWebKit/605.1.15 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36",
    "curl/8.11.1",
    "Googlebot/2.1",
]


@dataclass(frozen=True, slots=True)
class Event:
    """One request to a web server; `timestamp_ms` since the epoch, `size` in bytes."""

    timestamp_ms: int
    visitor: str
    path: str
    status: int
    size: int
    duration_us: int
    agent: str

    def to_json(self) -> bytes:
        return json.dumps(
            {
                "time": self.timestamp_ms,
                "visitor": self.visitor,
                "path": self.path,
                "status": self.status,
                "size": self.size,
                "duration_us": self.duration_us,
                "agent": self.agent,
            }
        ).encode()


def events(seed: int) -> Iterator[Event]:
    """Yield events without end, in the order of their times."""
    chance = random.Random(seed)
    weights = [1 / (rank + 1) for rank in range(len(PATHS))]
    now_ms = START_MS
    while True:
        # Paths are drawn a thousand at a time, since the weighted draw is expensive.
        for path in chance.choices(PATHS, weights, k=1000):
            now_ms += chance.randrange(20)
            yield Event(
                timestamp_ms=now_ms,
                visitor=f"10.{int(chance.paretovariate(1.2)) % 200}.{chance.randrange(256)}",
                path=path,
                status=chance.choice(STATUSES),
                size=int(chance.paretovariate(1.1) * 500) % 5_000_000,
                duration_us=int(chance.lognormvariate(8, 1)),
                agent=chance.choice(AGENTS),
            )


def events_of_size(seed: int, size_bytes: int) -> Iterator[tuple[Event, bytes]]:
    """Yield events with their JSON lines until the lines together reach the size."""
    written = 0
    for event in events(seed):
        line = event.to_json()
        yield event, line
        written += len(line)
        if written >= size_bytes:
            return


@dataclass
class Summary:
    """The plain computation for comparison with a pipeline's result."""

    count: int = 0
    bytes_sent: int = 0
    requests_by_status: Counter[int] = field(default_factory=Counter)
    bytes_by_path: Counter[str] = field(default_factory=Counter)

    def add(self, event: Event) -> None:
        self.count += 1
        self.bytes_sent += event.size
        self.requests_by_status[event.status] += 1
        self.bytes_by_path[event.path] += event.size
