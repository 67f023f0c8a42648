"""After any requests: the records alone give the state, and the promises of ids hold."""

import json
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.registry.core.registry_core import RegistryCore
from barnabas.registry.rest.registry_app import RegistryApp
from tests.registry.asgi_calls import ask
from tests.registry.memory_backend import MemoryBackend, StoredRecord

SUBJECTS = ["a", "b", ":.x:a"]
TEXTS = ['"int"', '"long"', '"string"', '{"type":"array","items":"int"}', ""]

subjects = st.sampled_from(SUBJECTS)
versions = st.sampled_from(["1", "2", "3", "latest"])
metadata = st.sampled_from([None, {"properties": {"g": "1"}}, {"properties": {"g": "2"}}])


def _register(
    subject: str, text: str, labels: Any, pinned: int | None, schema_id: int | None
) -> Any:
    body = {"schema": text, "metadata": labels, "version": pinned, "id": schema_id}
    return "POST", f"/subjects/{subject}/versions", body


requests = st.one_of(
    st.builds(
        _register,
        subjects,
        st.sampled_from(TEXTS),
        metadata,
        st.sampled_from([None, None, None, -1, 2]),
        st.sampled_from([None, None, None, None, 7]),
    ),
    st.builds(
        lambda subject, permanent: ("DELETE", f"/subjects/{subject}?permanent={permanent}", None),
        subjects,
        st.sampled_from(["true", "false"]),
    ),
    st.builds(
        lambda subject, version, permanent: (
            "DELETE",
            f"/subjects/{subject}/versions/{version}?permanent={permanent}",
            None,
        ),
        subjects,
        versions,
        st.sampled_from(["true", "false"]),
    ),
    st.builds(
        lambda subject, level: ("PUT", f"/config/{subject}", {"compatibility": level}),
        st.sampled_from([*SUBJECTS, ":.x:"]),
        st.sampled_from(["NONE", "BACKWARD", "FULL", None]),
    ),
    st.builds(
        lambda subject, mode: ("PUT", f"/mode/{subject}?force=true", {"mode": mode}),
        st.sampled_from([*SUBJECTS, ":.x:"]),
        st.sampled_from(["READWRITE", "IMPORT", "READONLY"]),
    ),
    st.sampled_from([("DELETE", "/config/a", None), ("DELETE", "/mode/a", None)]),
    st.just(("DELETE", "/contexts/.x", None)),
)
removals = st.builds(
    lambda subject: [
        ("DELETE", f"/subjects/{subject}", None),
        ("DELETE", f"/subjects/{subject}?permanent=true", None),
    ],
    subjects,
)
registrations = st.builds(
    lambda subject, text: [_register(subject, text, None, None, None)],
    subjects,
    st.sampled_from(TEXTS[:4]),
)
# Drawn by number: hypothesis would otherwise prefer the first kind of part.
programs = st.lists(
    st.integers(0, 9).flatmap(
        lambda n: registrations if n < 5 else removals if n < 7 else requests.map(lambda r: [r])
    ),
    min_size=6,
    max_size=20,
).map(lambda parts: [each for part in parts for each in part])


def replayed(records: list[StoredRecord]) -> RegistryCore:
    core = RegistryCore()
    for offset, (key, value) in enumerate(records):
        assert core.replay(key, value, offset=offset, timestamp_ms=offset) is None
    return core


def picture(core: RegistryCore) -> Any:
    """Return what clients can see."""
    state = core.state
    versions = {
        (each.subject, each.version): (each.schema_id, each.guid, each.content, each.deleted)
        for subject in state.subjects
        for each in state.versions(subject, deleted=True)
    }
    return versions, state.configs, state.modes, state.contexts(), state.referrers


def compacted(records: list[StoredRecord]) -> list[StoredRecord]:
    """Return the last record of each key, in order."""
    last = {key: offset for offset, (key, _) in enumerate(records)}
    return [records[offset] for offset in sorted(last.values())]


@settings(deadline=None)
@given(programs)
def test_replaying_records_gives_the_state_that_answered(asked: list[Any]) -> None:
    trio.run(_run, asked)


async def _run(asked: list[Any]) -> None:
    backend = MemoryBackend()
    app = RegistryApp(backend).asgi()
    texts: dict[tuple[str, int], str] = {}
    for method, target, body in asked:
        answer = await ask(app, method, target, body)
        assert answer.status < 500
        if method == "POST" and answer.status == 200:
            _check_registration(backend, texts, target, json.loads(answer.body))
            again = await ask(app, method, target, body)
            if not body["version"]:
                assert again.json["id"] == answer.json["id"]
                assert again.json["version"] == answer.json["version"]
        assert picture(replayed(backend.records)) == picture(backend.core)
        _check_ids(backend.core)
    backend.append(*backend.core.take_repairs())
    last = [(key, value) for key, value in compacted(backend.records) if value is not None]
    for core in (replayed(compacted(backend.records)), replayed(last)):
        assert picture(core)[0] == picture(backend.core)[0]
        for context in backend.core.state.id_contexts():
            highest = backend.core.state.ids_of(context).max_id
            assert core.state.ids_of(context).max_id == highest


def _check_registration(
    backend: MemoryBackend, texts: dict[tuple[str, int], str], target: str, answer: Any
) -> None:
    """An id has one content, always."""
    subject = target.split("/")[2]
    found = backend.core.state.version(subject, answer["version"])
    assert found is not None
    assert found.schema_id == answer["id"]
    assert found.guid == answer["guid"] == found.content.guid()
    context = ".x" if subject.startswith(":") else "."
    assert texts.setdefault((context, answer["id"]), found.guid) == found.guid


def _check_ids(core: RegistryCore) -> None:
    for context in core.state.id_contexts():
        ids = core.state.ids_of(context)
        held = {key for keys in ids.versions.values() for key in keys}
        assert set(ids.contents) == set(ids.guids) == set(ids.versions)
        assert all(key[1] in core.state.subjects[key[0]] for key in held)
        assert max(ids.contents, default=0) <= ids.max_id
