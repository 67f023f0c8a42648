"""Damaged requests against a registry: no 500, nothing slow, memory flat.

`python -m tests.registry.registry_fuzz --count 100000` mutates schemas and bodies of recorded
requests and reports the slowest answer, in CPU time, and the growth of memory.
"""

import argparse
import json
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import trio

from barnabas.http.body_limit import BodyTooLargeError
from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry.asgi_calls import ask
from tests.registry.golden_data import golden_lines
from tests.registry.memory_backend import MemoryBackend

SLOW_S = 2.0
_REGISTRY_LIFE = 500
"""An empty registry takes over after this number of requests: stored schemas must not add up."""

_PARTS = [
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "'",
    "/",
    "?",
    "&",
    "null",
    "true",
    "-1",
    "1e400",
    "9999999999999999999999",
    "\\u0000",
    "\\ud800",
    '"type"',
    '"record"',
    '"fields"',
    '"$ref"',
    '"#"',
    '"name"',
    "syntax",
    "message",
    "import",
    "extend",
    "oneof",
    "map<",
    "%2F",
    "..",
    "latest",
    "\x00",
    "é",
    "😀",
]
_METHODS = ["GET", "POST", "PUT", "DELETE"]


@dataclass
class FuzzOutcome:
    """The result of a run."""

    requests: int = 0
    failures: list[str] | None = None
    slowest_s: float = 0.0
    slowest: str = ""
    grown_mb: float = 0.0


def mutated_text(chance: random.Random, text: str) -> str:
    """Return a text with a few places changed."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.choice([0, 1, 1, 3, 20]))
        match chance.randrange(4):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:at] + chance.choice(_PARTS) + text[end:]
            case 2:
                text = text[:end] + text[at:end] * chance.choice([1, 2, 50]) + text[end:]
            case _:
                text = text[:at] + chr(chance.choice([1, 34, 92, 0x7F, 0x2028, 65])) + text[end:]
    return text


def mutated_value(chance: random.Random, value: Any, depth: int = 0) -> Any:
    """Return a JSON value with one part replaced."""
    if depth > 3 or chance.random() < 0.3 or not value:
        return chance.choice(
            [None, True, 0, -1, 2**31, 1e300, "", "x", [], {}, [[]], {"a": None}, "latest", value]
        )
    if isinstance(value, dict):
        key = chance.choice(list(value))
        return {**value, key: mutated_value(chance, value[key], depth + 1)}
    if isinstance(value, list):
        at = chance.randrange(len(value))
        return [*value[:at], mutated_value(chance, value[at], depth + 1), *value[at + 1 :]]
    return mutated_text(chance, value) if isinstance(value, str) else value


def deep(chance: random.Random) -> str:
    """Return a schema that is nested deeply, refers to itself, or repeats a costly pattern."""
    depth = chance.choice([50, 200, 5000])
    match chance.randrange(5):
        case 0:
            return '{"type":"array","items":' * depth + '"int"' + "}" * depth
        case 1:
            return "[" * depth + "]" * depth
        case 2:
            return '{"not":' * depth + "{}" + "}" * depth
        case 3:
            return json.dumps({"allOf": [{"$ref": "#"}] * min(depth, 200), "pattern": "(a+)+$"})
        case _:
            return 'syntax = "proto3"; ' + "message M { " * depth + "}" * depth


def damaged(chance: random.Random, request: dict[str, Any]) -> tuple[str, str, bytes]:
    """Return method, target and body of a request with something wrong."""
    method, path, body = request["method"], request["path"], request["body"] or ""
    kind = chance.randrange(6)
    if kind == 0:
        path = "/" + mutated_text(chance, path[1:]).replace(" ", "%20")
    elif kind == 1:
        method = chance.choice(_METHODS)
    elif kind == 2:
        body = mutated_text(chance, body)
    elif kind == 3:
        schema_type = chance.choice(["AVRO", "JSON", "PROTOBUF"])
        body = json.dumps({"schema": deep(chance), "schemaType": schema_type})
    else:
        try:
            value = json.loads(body)
            if kind == 4 and isinstance(value, dict) and isinstance(value.get("schema"), str):
                value["schema"] = mutated_text(chance, value["schema"])
                body = json.dumps(value)
            else:
                body = json.dumps(mutated_value(chance, value))
        except ValueError:
            body = mutated_text(chance, body)
    target = path.encode("utf-8", "replace").decode("latin-1")
    return method, target, body.encode("utf-8", "surrogatepass")


def damaged_requests(seed: int, count: int) -> Iterator[tuple[str, str, bytes]]:
    """Return requests in the order of the recorded ones, most of them damaged."""
    chance = random.Random(seed)
    recorded = golden_lines("requests")
    for number in range(count):
        request = recorded[number % len(recorded)]
        if chance.random() < 0.3:
            yield request["method"], request["path"], (request["body"] or "").encode()
        else:
            yield damaged(chance, request)


async def fuzz(seed: int, count: int) -> FuzzOutcome:
    """Send damaged requests and return what went wrong."""
    outcome = FuzzOutcome(failures=[])
    app: Any = None
    memory_kb = 0
    for number, (method, target, body) in enumerate(damaged_requests(seed, count)):
        if number % _REGISTRY_LIFE == 0:
            app = RegistryApp(MemoryBackend()).asgi()
        if number == min(1000, count // 2):
            memory_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        try:
            status = (await ask(app, method, target, body)).status
        except BodyTooLargeError:
            status = 413
        except Exception as error:  # the host answers with status 500
            status = 500
            method = f"{error!r} {method}"
        seconds = time.process_time() - started
        outcome.requests += 1
        if status >= 500:
            assert outcome.failures is not None
            outcome.failures.append(f"{status} {method} {target} {body!r:.2000}")
        if seconds > outcome.slowest_s:
            outcome.slowest_s, outcome.slowest = seconds, f"{method} {target} {body!r:.300}"
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kb
    outcome.grown_mb = grown_kb / 1024
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    outcome = trio.run(fuzz, arguments.seed, arguments.count)
    for failure in (outcome.failures or [])[:20]:
        print(failure)
    print(
        f"seed {arguments.seed}: {outcome.requests} requests, {len(outcome.failures or [])} with "
        f"status 500, slowest {outcome.slowest_s:.2f} s, memory grew by {outcome.grown_mb:.0f} MB"
    )
    if outcome.failures or outcome.slowest_s > SLOW_S:
        print(f"slowest: {outcome.slowest}")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
