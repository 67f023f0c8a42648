"""The version of a job with state: what its state depends on, kept beside the checkpoint.

A job that is changed keeps its state when the state means the same to the new version: filters,
conversions, output columns and targets may change. Other sources, groups, aggregates, windows or
joins do not fit: Spark would refuse some of them without naming the difference, and take others,
such as a window of another length, for the old ones.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from barnabas.pipeline.delivery.driver import frame_sources
from barnabas.pipeline.delivery.driver.frame_sources import items_of
from barnabas.pipeline.delivery.driver.spark_library import DataFrame, pyspark
from barnabas.pipeline.delivery.micro_batches.checkpoint_files import VERSION_FILE, CheckpointFiles
from barnabas.pipeline.delivery.plan.job_plan import REBUILD
from barnabas.pipeline.delivery.plan.task_failures import refused

_FORMAT: Final = 2
_PARAMETER: Final = re.compile(r"(?<=lambda [xyz])_\d+")
_UNNAMED: Final = re.compile(
    r"#\d+L?|@[0-9a-f]{5,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|-T\d+ms"
    rf"|{_PARAMETER.pattern}"
)
"""The ids of columns, objects and nodes, the numbers of parameters, which differ in each process,
and the delays of watermarks, which may change."""
_SLIDE: Final = re.compile(r"% (\d+)\)")
_LENGTH: Final = re.compile(r"\) \+ (\d+)\), LongType, TimestampType\)")
_OFFSET: Final = re.compile(r", LongType\) - (\d+)\) %")
_GAP: Final = re.compile(r" \+ cast\(([^()]*) as interval\)")
_US: Final = 1_000
_FIELDS_MAX: Final = 10_000
_WINDOWS: Final = ("window", "session_window")
_KEYS: Final = ("key", "_group", "_by", "_on", "_left_key", "_right_key")
"""The columns of the keys of a state, in operators of streams."""
_LIVE: Final = re.compile(r"^CASE WHEN (?:_kept|isnull\(_error\)) THEN (.*) END$", re.DOTALL)
"""A key, which is null in rows that are not processed."""
_KERNEL_COLUMNS: Final = {"key", "value", "timestamp_ms", "side"}


@attrs.frozen
class QueryVersion:
    """One version of a job."""

    parts: Mapping[str, str]
    """What the state depends on, by the names that messages use."""
    digest: str
    """Changes with everything that decides the rows of a micro-batch, as far as it is known."""
    spark: str
    """The version of Spark whose texts the parts have; empty when they are not Spark's."""

    def encode(self) -> bytes:
        """Return the content of the file."""
        fields = {"format": _FORMAT, "parts": dict(self.parts)}
        return json.dumps({**fields, "digest": self.digest, "spark": self.spark}).encode()


def decode(content: bytes) -> QueryVersion | None:
    """Return the version in a file, None for a file of another release."""
    try:
        fields: Any = json.loads(content)
        if fields["format"] != _FORMAT:
            return None
        parts = {str(name): str(text) for name, text in fields["parts"].items()}
        if fields["spark"]:  # earlier releases of barnabas have kept the numbers
            parts = {name: _PARAMETER.sub("", text) for name, text in parts.items()}
        return QueryVersion(parts, str(fields["digest"]), str(fields["spark"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def of_properties(parts: Mapping[str, str], properties: Mapping[str, str]) -> QueryVersion:
    """Return the version of a job that its properties describe."""
    return QueryVersion(parts, _digest(sorted(properties.items())), "")


def of_frame(frame: DataFrame, output_mode: str) -> QueryVersion:
    """Return the version of a query that a DataFrame describes.

    The code of a user's Python functions is not seen, only their names.
    """
    nodes = frame_sources.plan_nodes(frame)
    names = {**_keys(nodes), **_windows(nodes)}
    stateful = [_shown(node, names) for node in nodes if frame_sources.keeps_state(node)]
    sources = frame_sources.source_names(frame)
    parts = {"sources": ", ".join(sources), "output mode": output_mode}
    parts |= {f"state {number}": text for number, text in enumerate(reversed(stateful), 1)}
    if keys := [key for node in nodes for key in _kernel_keys(node, names)]:
        parts["keys"] = ", ".join(reversed(keys))
    inner = [_text(node) for node in nodes if _decides_rows(node)]
    return QueryVersion(parts, _digest([sources, inner]), str(pyspark("version").__version__))


def _decides_rows(node: Any) -> bool:
    """True for an operator; one that collects figures has the number of its DataFrame, too."""
    return int(node.children().size()) > 0 and str(node.nodeName()) != "CollectMetrics"


def check(files: CheckpointFiles, version: QueryVersion, *, is_partly_written: bool) -> None:
    """Raise JobStartError when a version does not fit the state; otherwise keep it there.

    `is_partly_written` means that only some tasks have written the newest micro-batch.
    """
    content = files.content_of(VERSION_FILE) if files.query_id() is not None else None
    stored = None if content is None else decode(content)
    if stored is not None:
        if found := differences(stored, version):
            raise refused(
                f"the query does not fit its state: {'; '.join(found)}; bring the earlier version "
                f"back, or {REBUILD}"
            )
        if is_partly_written and stored.digest != version.digest:
            raise refused(
                f"micro-batch {files.newest_batch()} is written in part, by another version of the "
                f"query: run that version until the micro-batch is complete, or {REBUILD}"
            )
    if stored != version:
        files.write(VERSION_FILE, version.encode())


def differences(stored: QueryVersion, version: QueryVersion) -> list[str]:
    """Return what differs between the version that wrote a state and another one."""
    is_comparable = stored.spark == version.spark
    return [
        f"{name} is {_quoted(stored.parts.get(name))} in the state and "
        f"{_quoted(version.parts.get(name))} in the query"
        for name in dict.fromkeys([*stored.parts, *version.parts])
        if stored.parts.get(name) != version.parts.get(name)
        and (is_comparable or not name.startswith("state "))
    ]


def _quoted(text: str | None) -> str:
    return "absent" if text is None else f"'{text}'"


def _shown(node: Any, names: Mapping[int, str]) -> str:
    """Return the text of an operator with state."""
    name = str(node.nodeName())
    if name == "Aggregate":
        groups = ", ".join(_expressions(node.groupingExpressions(), names))
        results = ", ".join(_results(node, names))
        return f"aggregate of {results} by {groups}"
    if name == "Join":
        found = node.condition()
        columns = _attributes(found.get()) if found.isDefined() else ()
        keys = [_expression(each, names) for each in columns if int(each.exprId().id()) in names]
        return " of ".join([f"join {_text(node).removeprefix('Join ')}", *dict.fromkeys(keys)])
    if name.startswith("Deduplicate"):
        keys = ", ".join(_expressions(node.keys(), names))
        return f"deduplication by {keys}"
    return name


def _results(node: Any, names: Mapping[int, str]) -> Iterator[str]:
    """Yield the aggregates, without the groups, with their types and without their names."""
    groups = set(_expressions(node.groupingExpressions(), names))
    for each in items_of(node.aggregateExpressions()):
        inner = each.child() if str(each.nodeName()) == "Alias" else each
        text = _expression(inner, names)
        if text not in groups:
            yield f"{text} {inner.dataType().simpleString()}"


def _expressions(sequence: Any, names: Mapping[int, str]) -> list[str]:
    return [_expression(each, names) for each in items_of(sequence)]


def _expression(expression: Any, names: Mapping[int, str]) -> str:
    if str(expression.nodeName()) == "AttributeReference":
        name = names.get(int(expression.exprId().id()))
        if name is not None:
            return name
    return _UNNAMED.sub("", str(expression.toString()))


def _keys(nodes: Sequence[Any]) -> dict[int, str]:
    """Return the expressions that keys are, by the ids of their columns.

    A column that only renames another one stands for the expression of the other.
    """
    made = {
        int(each.exprId().id()): each
        for node in nodes
        if str(node.nodeName()) == "Project"
        for each in items_of(node.projectList())
        if str(each.nodeName()) == "Alias"
    }
    found: dict[int, str] = {}
    for number, alias in made.items():
        if str(alias.name()) in _KEYS:
            inner = alias.child()
            while str(inner.nodeName()) == "AttributeReference":
                origin = made.get(int(inner.exprId().id()))
                if origin is None:
                    break
                inner = origin.child()
            text = _UNNAMED.sub("", str(inner.toString()))
            found[number] = _LIVE.sub(r"\1", text)
    return found


def _kernel_keys(node: Any, names: Mapping[int, str]) -> Iterator[str]:
    """Yield the keys of rows that go into a kernel, which sees their bytes only."""
    if str(node.nodeName()) != "Project":
        return
    made = {str(each.name()): each for each in items_of(node.projectList())}
    is_input = made.keys() >= _KERNEL_COLUMNS and "bucket_key" not in made
    if not is_input or str(made["side"].nodeName()) != "Alias":
        return
    columns = [*_attributes(made["key"]), *_attributes(made["value"])]
    numbers = [int(each.exprId().id()) for each in columns]
    yield " and ".join(dict.fromkeys(names[each] for each in numbers if each in names))


def _attributes(expression: Any) -> Iterator[Any]:
    """Yield the columns in an expression."""
    if str(expression.nodeName()) == "AttributeReference":
        yield expression
    for each in items_of(expression.children()):
        yield from _attributes(each)


def _windows(nodes: Sequence[Any]) -> dict[int, str]:
    """Return the texts of windows of time by the ids of their columns."""
    found: dict[int, str] = {}
    for node in reversed(nodes):
        name = str(node.nodeName())
        if name == "Project":
            for each in items_of(node.projectList()):
                if str(each.nodeName()) != "Alias":
                    continue
                child, number = each.child(), int(each.exprId().id())
                if str(each.name()) in _WINDOWS:
                    found[number] = window_text(str(child.toString()))
                elif str(child.nodeName()) == "AttributeReference":  # it renames a window
                    text = found.get(int(child.exprId().id()))
                    found |= {} if text is None else {number: text}
        elif name == "Expand":  # of windows that overlap
            for each in items_of(node.output()):
                if str(each.name()) in _WINDOWS:
                    found[int(each.exprId().id())] = window_text(_text(node))
    return found


def window_text(expression: str) -> str:
    """Return a window in short: Spark has replaced it by an expression for its bounds."""
    text = _UNNAMED.sub("", expression)
    slide, length, offset = _SLIDE.search(text), _LENGTH.search(text), _OFFSET.search(text)
    if slide and length and offset:
        lengths = (int(found[1]) / _US for found in (length, slide, offset))
        return "window({:g} ms every {:g} ms from {:g} ms)".format(*lengths)
    if gap := _GAP.search(text):
        return f"session_window({gap[1]})"
    return text


def _text(node: Any) -> str:
    return _UNNAMED.sub("", str(node.simpleString(_FIELDS_MAX))).lstrip("~")


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]
