"""One script of requests to Connect's REST API, played against any worker.

Each step has a name; the result is its status and the shape of its body: keys, types, and values
where they are equal by contract.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.pipeline.connect_workers import ConnectWorker, Response

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
OURS = "Barnabas"
"""The group of properties that Java's Connect does not have."""

ACCEPTS = (
    "", "text/plain", "text/html", "text/*", "application/*", "application/xml", "*/*", "garbage",
    "APPLICATION/JSON", "application/json;q=0", "text/html, application/json;q=0.5",
    "text/plain, */*;q=0.1",
)  # fmt: skip
OPTIONS_PATHS = (
    "/", "/connectors", "/nothing/here", "/connectors/none/status", "/connectors/none/config",
    "/connector-plugins/FileStreamSink/config/validate",
)  # fmt: skip


class Step(NamedTuple):
    """The response to one request."""

    name: str
    response: Response


class Script:
    """Plays requests and notes the responses."""

    def __init__(self, worker: ConnectWorker, directory: Path) -> None:
        self.worker = worker
        self.input = directory / "in.txt"
        self.output = directory / f"out-{worker.kind}.txt"
        self.topic = f"{worker.group}-lines"
        self.steps: list[Step] = []

    def ask(self, name: str, method: str, path: str, body: Any = None, **more: Any) -> Any:
        response = self.worker.ask(method, path, body, **more)
        self.steps.append(Step(name, response))
        return response.body

    def source(self, **more: str) -> dict[str, str]:
        return {"connector.class": SOURCE, "file": str(self.input), "topic": self.topic, **more}

    def sink(self, **more: str) -> dict[str, str]:
        return {"connector.class": SINK, "file": str(self.output), "topics": self.topic, **more}

    def play(self) -> list[Step]:
        """Play all parts and return the steps."""
        self.input.write_text("".join(f"line {number}\n" for number in range(10)))
        for part in (
            self.about_the_worker,
            self.negotiation,
            self.invalid,
            self.validation,
            self.creation,
            self.reading,
            self.states,
            self.offsets,
            self.loggers,
            self.deletion,
        ):
            part()
        return self.steps

    def about_the_worker(self) -> None:
        self.ask("root", "GET", "/")
        self.ask("health", "GET", "/health")
        self.ask("no connectors", "GET", "/connectors")
        self.ask("unknown path", "GET", "/nothing/here")
        self.ask("tasks-config is gone", "GET", "/connectors/c/tasks-config")
        self.ask("wrong method", "PUT", "/connectors")
        self.ask("plugins", "GET", "/connector-plugins")
        self.ask("all plugins", "GET", "/connector-plugins?connectorsOnly=false")
        self.ask("sink plugin", "GET", "/connector-plugins/FileStreamSink/config")
        self.ask("source plugin", "GET", f"/connector-plugins/{SOURCE}/config")
        self.ask("unknown plugin", "GET", "/connector-plugins/Nothing/config")
        for name in ("StringConverter", "JsonConverter", "SimpleHeaderConverter"):
            self.ask(f"plugin {name}", "GET", f"/connector-plugins/{name}/config")

    def negotiation(self) -> None:
        for accept in ACCEPTS:
            self.ask(f"accept {accept}", "GET", "/connectors", accept=accept)
        self.ask("accept on an unknown path", "GET", "/nothing/here", accept="text/plain")
        self.ask("accept with a wrong method", "PUT", "/connectors", accept="text/plain")
        for verb, path in (("POST", ""), ("DELETE", "/missing"), ("PUT", "/missing/pause")):
            self.ask(f"accept of {verb}", verb, f"/connectors{path}", {}, accept="text/plain")
        for path in OPTIONS_PATHS:
            self.ask(f"options {path}", "OPTIONS", path)
        for version in ("1", "latest", "[1,2)", "", "abc"):
            path = f"/connector-plugins/FileStreamSink/config?version={version}"
            self.ask(f"version {version} of a plugin", "GET", path)
        self.ask("version of no plugin", "GET", "/connector-plugins/No/config?version=1")

    def invalid(self) -> None:
        path = "/connectors"
        self.ask("no class", "POST", path, {"name": "c", "config": {}})
        self.ask("unknown class", "POST", path, {"name": "c", "config": {"connector.class": "N"}})
        self.ask("no topics", "POST", path, {"name": "c", "config": {"connector.class": SINK}})
        self.ask(
            "bad tasks", "POST", path, {"name": "c", "config": self.sink(**{"tasks.max": "x"})}
        )
        self.ask(
            "zero tasks", "POST", path, {"name": "c", "config": self.sink(**{"tasks.max": "0"})}
        )
        self.ask(
            "both kinds of topics",
            "POST",
            path,
            {"name": "c", "config": self.sink(**{"topics.regex": "a.*"})},
        )
        self.ask("other name", "POST", path, {"name": "c", "config": self.sink(name="d")})
        self.ask("other name in PUT", "PUT", "/connectors/c/config", self.sink(name="d"))
        self.ask("bad state", "POST", path, {"name": "c", "config": {}, "initial_state": "GONE"})
        self.ask("empty name", "POST", path, {"config": self.sink()})
        self.ask(
            "conflict of groups",
            "POST",
            path,
            {"name": "c", "config": self.sink(**{"consumer.override.group.id": self.worker.group})},
        )
        for verb, part in (
            ("GET", ""), ("GET", "/config"), ("GET", "/tasks"), ("GET", "/status"),
            ("GET", "/tasks/0/status"), ("GET", "/offsets"), ("PUT", "/pause"), ("PUT", "/resume"),
            ("PUT", "/stop"), ("POST", "/restart"), ("POST", "/restart?includeTasks=true"),
            ("POST", "/tasks/0/restart"), ("DELETE", ""), ("DELETE", "/offsets"),
            ("GET", "/topics"),
        ):  # fmt: skip
            self.ask(f"missing: {verb} {part}", verb, f"/connectors/missing{part}")
        self.ask("missing: PATCH", "PATCH", "/connectors/missing/config", {"a": "b"})

    def validation(self) -> None:
        path = "/connector-plugins/{}/config/validate"
        sink, source = path.format("FileStreamSink"), path.format("FileStreamSourceConnector")
        self.ask("validate nothing", "PUT", sink, {"connector.class": SINK})
        self.ask("validate sink", "PUT", sink, self.sink(name="c"))
        self.ask("validate source", "PUT", source, self.source(name="c"))
        self.ask("validate other class", "PUT", sink, self.source(name="c"))
        self.ask("validate without class", "PUT", sink, {"name": "c"})
        self.ask("validate errors", "PUT", sink, self.sink(
            name="c\u0001",
            **{"tasks.max": "a", "errors.tolerance": "some", "errors.log.enable": "maybe",
               "errors.retry.timeout": "1.5", "topics": "a,,b", "transforms": "x,x",
               "config.action.reload": "never"}))  # fmt: skip
        self.ask("validate converters", "PUT", sink, self.sink(
            name="c",
            **{"value.converter": "org.apache.kafka.connect.json.JsonConverter",
               "value.converter.schemas.enable": "perhaps", "key.converter": "Nothing"},
        ))  # fmt: skip
        self.ask("validate missing transformation", "PUT", sink, self.sink(
            name="c", transforms="t,u",
            **{"transforms.t.type": "Nothing", "transforms.t.negate": "true"}))  # fmt: skip
        self.ask("validate dead letters", "PUT", sink, self.sink(
            name="c", **{"errors.deadletterqueue.topic.name": self.topic}))  # fmt: skip
        self.ask("validate exactly once", "PUT", source, self.source(
            name="c", **{"exactly.once.support": "required", "transaction.boundary": "sometimes",
                         "offsets.storage.topic": ""}))  # fmt: skip
        self.ask("validate null", "PUT", sink, {**self.sink(name="c"), "file": None})

    def creation(self) -> None:
        self.ask("create", "POST", "/connectors", {"name": "src", "config": self.source()})
        self.ask("create again", "POST", "/connectors", {"name": "src", "config": self.source()})
        self.ask("create by PUT", "PUT", "/connectors/snk/config", self.sink())
        self.worker.settle("snk", tasks=1)
        self.ask("replace by PUT", "PUT", "/connectors/snk/config", self.sink(**{"tasks.max": "2"}))
        self.worker.settle("snk", tasks=2)
        self.ask("patch", "PATCH", "/connectors/snk/config", {"tasks.max": "1", "a": "b"})
        self.worker.settle("snk", tasks=1)
        self.ask("patch null", "PATCH", "/connectors/snk/config", {"a": None})
        body = {"name": "idle", "config": self.source(), "initial_state": "STOPPED"}
        self.ask("create stopped", "POST", "/connectors", body)
        self.worker.wait_states("src", "RUNNING", ["RUNNING"])
        self.worker.wait_states("snk", "RUNNING", ["RUNNING"])
        self.worker.wait_states("idle", "STOPPED", [])

    def reading(self) -> None:
        self.worker.wait(lambda: self.output.exists() and len(self.output.read_text()) >= 70)
        # A worker may commit offsets in the middle, and answers with the last commit.
        lines = self.input.read_text().splitlines(keepends=True)
        self.worker.wait(lambda: self._offsets("snk", "kafka_offset") == [len(lines)])
        self.worker.wait(lambda: self._offsets("src", "position") == [len("".join(lines))])
        self.worker.wait(
            lambda: bool(self.worker.ask("GET", "/connectors/snk/topics").body["snk"]["topics"])
        )
        for part in ("", "/config", "/tasks", "/status", "/tasks/0/status", "/topics", "/offsets"):
            self.ask(f"source {part}", "GET", f"/connectors/src{part}")
            self.ask(f"sink {part}", "GET", f"/connectors/snk{part}")
        self.ask("status of missing task", "GET", "/connectors/src/tasks/7/status")
        self.ask("expand", "GET", "/connectors?expand=status&expand=info&expand=nothing")
        self.ask("expand nothing", "GET", "/connectors?expand=nothing")

    def _offsets(self, name: str, field: str) -> list[int]:
        """Return a field of the committed offsets of a connector."""
        found = self.worker.ask("GET", f"/connectors/{name}/offsets").body["offsets"]
        return [each["offset"][field] for each in found]

    def states(self) -> None:
        self.ask("pause", "PUT", "/connectors/src/pause")
        self.worker.wait_states("src", "PAUSED", ["PAUSED"])
        self.ask("resume", "PUT", "/connectors/src/resume")
        self.worker.wait_states("src", "RUNNING", ["RUNNING"])
        self.ask("restart", "POST", "/connectors/src/restart")
        self.worker.wait_states("src", "RUNNING", ["RUNNING"])
        self.ask("restart tasks", "POST", "/connectors/src/restart?includeTasks=true")
        self.worker.wait_states("src", "RUNNING", ["RUNNING"])
        self.ask(
            "restart failed", "POST", "/connectors/src/restart?includeTasks=true&onlyFailed=true"
        )
        self.worker.wait_states("src", "RUNNING", ["RUNNING"])
        self.ask("restart task", "POST", "/connectors/src/tasks/0/restart")
        self.ask("restart missing task", "POST", "/connectors/src/tasks/7/restart")
        self.ask("reset topics", "PUT", "/connectors/src/topics/reset")
        self.ask("topics after the reset", "GET", "/connectors/src/topics")

    def offsets(self) -> None:
        position = {
            "offsets": [{"partition": {"filename": str(self.input)}, "offset": {"position": 7}}]
        }
        self.ask("alter while running", "PATCH", "/connectors/src/offsets", position)
        self.ask("reset while running", "DELETE", "/connectors/src/offsets")
        for name in ("src", "snk"):
            self.ask(f"stop {name}", "PUT", f"/connectors/{name}/stop")
            self.worker.wait_states(name, "STOPPED", [])
            self.ask(f"tasks of stopped {name}", "GET", f"/connectors/{name}/tasks")
        self.ask("alter nothing", "PATCH", "/connectors/src/offsets", {"offsets": []})
        self.ask("alter source", "PATCH", "/connectors/src/offsets", position)
        self.ask("altered source", "GET", "/connectors/src/offsets")
        bad = {"offsets": [{"partition": {"file": "x"}, "offset": {"position": "y"}}]}
        self.ask("alter source badly", "PATCH", "/connectors/src/offsets", bad)
        self.ask("reset source", "DELETE", "/connectors/src/offsets")
        self.ask("offsets after the reset", "GET", "/connectors/src/offsets")
        sink = {"kafka_topic": self.topic, "kafka_partition": 0}
        moved = {"offsets": [{"partition": sink, "offset": {"kafka_offset": 3}}]}
        self.ask("alter sink", "PATCH", "/connectors/snk/offsets", moved)
        self.ask("altered sink", "GET", "/connectors/snk/offsets")
        for name, each in self._bad_sink_offsets(sink):
            self.ask(name, "PATCH", "/connectors/snk/offsets", {"offsets": [each]})
        self.ask("reset sink", "DELETE", "/connectors/snk/offsets")
        self.ask("sink after the reset", "GET", "/connectors/snk/offsets")

    def _bad_sink_offsets(self, sink: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield (
            "sink without topic",
            {"partition": {"kafka_partition": 0}, "offset": {"kafka_offset": 1}},
        )
        yield "sink with bad partition", {
            "partition": {**sink, "kafka_partition": "x"}, "offset": {"kafka_offset": 1}
        }  # fmt: skip
        yield "sink without offset", {"partition": sink, "offset": {"offset": 1}}
        yield "sink with bad offset", {"partition": sink, "offset": {"kafka_offset": "x"}}

    def loggers(self) -> None:
        self.ask("loggers", "GET", "/admin/loggers")
        self.ask("logger", "GET", "/admin/loggers/root")
        self.ask("missing logger", "GET", "/admin/loggers/no.such.logger")
        self.ask("level without value", "PUT", "/admin/loggers/root", {})
        self.ask("bad level", "PUT", "/admin/loggers/root", {"level": "LOUD"})
        self.ask("level of all workers", "PUT", "/admin/loggers/a?scope=cluster", {"level": "INFO"})

    def deletion(self) -> None:
        for name in ("src", "snk", "idle"):
            self.ask(f"delete {name}", "DELETE", f"/connectors/{name}")
        self.worker.wait(lambda: self.worker.ask("GET", "/connectors/src/status").status == 404)
        self.ask("no connectors again", "GET", "/connectors")
        self.ask("status after the deletion", "GET", "/connectors/src/status")
