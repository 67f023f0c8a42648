"""The recorded answers of a Java schema registry: random pairs of schemas and single requests."""

import gzip
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from barnabas.registry.formats import Incompatibility

DATA = Path(__file__).parents[2] / "data" / "registry"


@cache
def pairs(schema_type: str) -> list[dict[str, Any]]:
    """Return the recorded pairs of a type: old, new, canonical text of old, verdicts."""
    return [p for p in _lines("pairs.jsonl.gz") if p["type"] == schema_type]


@cache
def requests() -> list[dict[str, Any]]:
    """Return the recorded requests and answers, bodies parsed where they are JSON."""
    found = _lines("requests.jsonl.gz")
    for request in found:
        with suppress(ValueError, TypeError):
            request["body"] = json.loads(request["body"])
    return found


def registered(subject: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return body and answer of the first successful registration under a subject."""
    for request in requests():
        path = request["path"].partition("?")[0]
        if path == f"/subjects/{subject}/versions" and request["status"] == 200:
            return request["body"], request["answer"]
    raise LookupError(subject)


def reasons(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the recorded reasons as (rule, path)."""
    return [(r["errorType"], r["path"]) for r in answer["reasons"] if "errorType" in r]


def found(incompatibilities: list[Incompatibility]) -> list[tuple[str, str]]:
    """Return what a check found as (rule, path)."""
    return [(i.rule, i.path) for i in incompatibilities]


def _lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
