"""One script of requests, played against Java's Connect worker and against a runner.

Statuses, keys and values must be equal, except for what is listed here with its reason.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests import jars, spark
from compat_tests.pipeline.connect_workers import ConnectWorker, JavaWorker, RunnerProcess
from compat_tests.pipeline.rest_script import OURS, Script, Step
from compat_tests.servers import ServerProcess

pytestmark = [pytest.mark.timeout(400), pytest.mark.barnabas_only]

OTHER_STATUS = {
    "bad state": (500, 400),
    "validate without class": (500, 400),
    "alter source badly": (500, 400),
}
"""Bad input that Java's worker answers with 500."""

OTHER_BODY = {
    "root": "the commit",
    "unknown class": "the list of classes is written in another form",
    "plugins": "compared as a set below",
    "all plugins": "compared as a set below",
    "replace by PUT": "the tasks are made in the background",
    "patch": "the tasks are made in the background",
    "patch null": "the tasks are made in the background",
    "restart failed": "the task may still be restarting from the step before",
    "topics after the reset": "the source may have written again",
    "logger": "the level of the root logger",
}

IGNORED_FIELDS = {
    "documentation": "our words",
    "version": "the version of the plug-in's package",
    "worker_id": "the port",
}


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, server: ServerProcess | None
) -> Iterator[tuple[dict[str, Step], dict[str, Step]]]:
    """The steps of both workers, by name."""
    if reason := jars.missing() or spark.missing():
        pytest.skip(reason)
    if server is None:
        pytest.skip("needs a server that this suite starts")
    directory = tmp_path_factory.mktemp("rest")
    workers = [
        JavaWorker(server.bootstrap, directory, "rest-java"),
        RunnerProcess(server.bootstrap, directory, "rest-ours"),
    ]
    try:
        yield tuple(_play(worker, directory) for worker in workers)  # type: ignore[misc]
    finally:
        for worker in workers:
            worker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _play(worker: ConnectWorker, directory: Path) -> dict[str, Step]:
    worker.start()
    steps = {step.name: step for step in Script(worker, directory).play()}
    worker.stop()
    return steps


def normalized(value: Any, kind: str) -> Any:
    """Return a body without what may differ."""
    if isinstance(value, dict):
        if "configs" in value:
            value = {**value, "configs": _configs(value["configs"]), "groups": _groups(value)}
        return {
            name: normalized(each, kind)
            for name, each in value.items()
            if name not in IGNORED_FIELDS
        }
    if isinstance(value, list):
        kept = [each for each in value if not _is_ours(each)]
        return [normalized(each, kind) for each in kept]
    if isinstance(value, str):
        group = {"java": "rest-java", "barnabas": "rest-ours"}[kind]
        return value.replace(group, "GROUP").replace(f"out-{kind}", "out")
    return value


def _is_ours(value: Any) -> bool:
    return isinstance(value, dict) and value.get("group") == OURS


def _configs(configs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return properties by name: the order of converters' properties is that of a hash map."""
    found = {}
    for each in configs:
        if _is_ours(each["definition"]):
            continue
        definition = each["definition"] or {}
        if definition.get("name", "").endswith("plugin.version"):
            for part in (definition, each["value"]):
                part.update({key: "V" for key in ("default_value", "value") if part.get(key)})
                part.pop("recommended_values", None)
        each["value"]["errors"] = [_sorted_choices(error) for error in each["value"]["errors"]]
        each["value"].get("recommended_values", []).clear()
        found[each["value"]["name"]] = each
    return found


def _groups(value: dict[str, Any]) -> list[str]:
    return sorted(group for group in value["groups"] if group != OURS)


def _sorted_choices(error: str) -> str:
    """Java lists choices that ignore case in the order of a hash set."""
    head, mark, choices = error.partition("(case insensitive): ")
    return head + mark + ", ".join(sorted(choices.split(", "))) if mark else error


def plugin_definitions(body: list[dict[str, Any]]) -> Any:
    """Return the properties of a plug-in by name, without versions."""
    return {
        each["name"]: {
            key: value
            for key, value in each.items()
            if key not in IGNORED_FIELDS
            and not (each["name"].endswith("plugin.version") and key == "default_value")
        }
        for each in body
        if each.get("group") != OURS
    }


def _without_versions(body: Any) -> Any:
    """Return an error without the versions there are, and of a definition only that it is one."""
    if isinstance(body, list):
        return "definition"
    return {**body, "message": body["message"].partition(", available versions")[0]}


def test_options_have_the_methods_of_java(played: tuple[dict[str, Step], dict[str, Step]]) -> None:
    def methods(steps: dict[str, Step]) -> dict[str, list[str]]:
        return {
            name: sorted(step.response.headers.get("allow", "").split(","))
            for name, step in steps.items()
            if name.startswith("options ")
        }

    java, ours = played
    assert methods(ours) == methods(java)


def test_every_step_has_the_status_of_java(
    played: tuple[dict[str, Step], dict[str, Step]],
) -> None:
    java, ours = played
    assert list(java) == list(ours)
    different = {
        name: (java[name].response.status, ours[name].response.status)
        for name in java
        if java[name].response.status != ours[name].response.status
    }
    assert different == OTHER_STATUS


def test_every_step_has_the_body_of_java(played: tuple[dict[str, Step], dict[str, Step]]) -> None:
    java, ours = played
    different: dict[str, tuple[str, str]] = {}
    for name in java:
        if name in OTHER_BODY or name in OTHER_STATUS:
            continue
        bodies = [java[name].response.body, ours[name].response.body]
        if name.startswith("version "):
            shown = [_without_versions(body) for body in bodies]
        elif name.split()[-1] == "plugin" or name.startswith("plugin "):
            shown = [
                plugin_definitions(body) if isinstance(body, list) else body for body in bodies
            ]
        else:
            shown = [
                normalized(body, kind)
                for body, kind in zip(bodies, ("java", "barnabas"), strict=True)
            ]
        if shown[0] != shown[1]:
            texts = [json.dumps(each, sort_keys=True) for each in shown]
            different[name] = (texts[0], texts[1])
    assert different == {}


def test_body_that_differs_has_the_same_keys(
    played: tuple[dict[str, Step], dict[str, Step]],
) -> None:
    java, ours = played
    for name in ("root", "unknown class", "patch", "restart failed", "logger", *OTHER_STATUS):
        assert java[name].response.body.keys() == ours[name].response.body.keys(), name


@pytest.mark.parametrize("step", ["plugins", "all plugins"])
def test_every_plugin_of_java_is_there(
    played: tuple[dict[str, Step], dict[str, Step]], step: str
) -> None:
    java, ours = (
        {(each["class"], each["type"]) for each in steps[step].response.body} for steps in played
    )
    assert java - ours == set()


def test_location_of_a_new_connector_is_its_path(
    played: tuple[dict[str, Step], dict[str, Step]],
) -> None:
    for steps in played:
        assert steps["create"].response.headers["location"].endswith("/connectors/src")
