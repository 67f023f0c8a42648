"""The requests of the reference in order: statuses, answers, reasons and records are equal."""

import re
from typing import Any

import trio

from barnabas.registry.core.topic_records import decode_record, encode_key, encode_value
from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry.asgi_calls import HttpAnswer, ask
from tests.registry.golden_data import DATA, allowed_differences, golden_lines
from tests.registry.memory_backend import MemoryBackend

_REASON = re.compile(r"\{errorType:'(\w+)'.*?\(path '(.*?)'\)'", re.DOTALL)
_OLD_VERSION = re.compile(r"\{oldSchemaVersion: (\d+)\}")

# Offsets of the reference's records that ours leave out or write otherwise: rule sets (92, 93,
# 102), associations (139, 140), and a level under the name that answers give it (85).
OTHER_RECORDS = {85, 92, 93, 102, 139, 140}


def test_requests_in_order_are_answered_as_by_the_reference() -> None:
    differences = trio.run(_differences, MemoryBackend())
    assert differences == []


def test_allowed_differences_fit_a_page() -> None:
    assert len((DATA / "allowed_differences.txt").read_text().splitlines()) <= 15


def test_records_are_byte_equal_to_those_of_the_reference() -> None:
    backend = MemoryBackend()
    trio.run(_differences, backend)
    expected = [
        (each["key"], each["value"])
        for each in golden_lines("schemas-topic")
        if "NOOP" not in each["key"] and each["offset"] not in OTHER_RECORDS
    ]
    ours = [
        (key.decode(), None if value is None else value.decode())
        for key, value in backend.records
        if b"RuleSet" not in (value or b"")
        and b"ruleSet" not in (value or b"")
        # Highest ids are records of ours that the reference takes for NOOPs.
        and b"NOOP" not in key
    ]
    assert ours == expected
    assert len(ours) > 100


def test_records_of_the_reference_survive_reading_and_writing() -> None:
    for each in golden_lines("schemas-topic"):
        key = each["key"].encode()
        value = None if each["value"] is None else each["value"].encode()
        record = decode_record(key, value)
        assert encode_key(record.key) == key
        assert encode_value(record) == value


async def _differences(backend: MemoryBackend) -> list[str]:
    app = RegistryApp(backend).asgi()
    found: list[str] = []
    for number, request in enumerate(golden_lines("requests")):
        headers = {"content-type": request["request_type"]} if request["request_type"] else {}
        answer = await ask(app, request["method"], request["path"], request["body"], headers)
        ours, expected = _ours(answer, request), _expected(request, answer)
        is_equal = answer.status == request["status"] and ours == expected
        allowed = allowed_differences().get(number)
        if allowed is not None and (is_equal or answer.status != allowed):
            found.append(f"{number}: allowed to differ with {allowed}, got {answer.status}")
        if allowed is None and not is_equal:
            found.append(f"{number} {request['path']}: {ours} is not {expected}")
    return found


def _without_times(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: _without_times(value) for key, value in answer.items() if key != "ts"}
    if isinstance(answer, list):
        return [_without_times(item) for item in answer]
    return answer


def _ours(answer: HttpAnswer, request: dict[str, Any]) -> Any:
    try:
        found = _without_times(answer.json) if answer.body else {"__raw__": ""}
    except ValueError:
        return {"__raw__": answer.body.decode()}
    if isinstance(found, dict):
        if "is_compatible" in found and "messages" in found:
            found["reasons"] = _reasons(found["messages"])
        for name in ("message", "messages", "details"):
            found.pop(name, None)
    return found


def _reasons(messages: list[str]) -> list[dict[str, Any]]:
    reasons: list[dict[str, Any]] = []
    for message in messages:
        reason, old = _REASON.match(message), _OLD_VERSION.match(message)
        if reason:
            reasons.append({"errorType": reason[1], "path": reason[2]})
        elif old:
            reasons.append({"oldSchemaVersion": int(old[1])})
    return reasons


def _expected(request: dict[str, Any], answer: HttpAnswer) -> Any:
    """Return the reference's answer; ours to a registration does not repeat what was sent."""
    expected = _without_times(request["answer"])
    path = request["path"].partition("?")[0]
    if (
        request["method"] == "POST"
        and path.endswith("/versions")
        and b'"schema"' not in answer.body
    ):
        for name in ("schema", "metadata", "references", "ruleSet"):
            expected.pop(name, None)
    return expected
