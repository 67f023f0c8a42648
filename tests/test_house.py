"""The house rules that a machine can hold: docstrings, sizes, purity of the cores."""

import ast
import contextlib
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.language.banned import findings
from tests.language.ratchet import ALLOWED
from tests.language.texts import tree_texts

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "barnabas"
MODULES = sorted(SOURCE.rglob("*.py"))

# The largest of today: these limits may only fall.
FUNCTION_LINES_MAX = 62
MODULE_LINES_MAX = 500
LARGER_MODULES = {"raft.py": 700}

# Rooms whose state machines take (event, now): no clock, no randomness, no network, no files.
SANS_IO = [
    *sorted((SOURCE / "protocol").rglob("*.py")),
    *sorted((SOURCE / "key_stores").rglob("*.py")),
    *sorted((SOURCE / "cluster").rglob("*.py")),
    *sorted((SOURCE / "security").rglob("*.py")),
    *sorted((SOURCE / "coordinator").rglob("*.py")),
    *sorted((SOURCE / "client" / "core").rglob("*.py")),
    *sorted((SOURCE / "registry" / "formats").rglob("*.py")),
    *sorted((SOURCE / "registry" / "core").rglob("*.py")),
    *sorted((SOURCE / "pipeline" / "jobs" / "core").rglob("*.py")),
    *sorted((SOURCE / "pipeline" / "definitions").rglob("*.py")),
    *sorted((SOURCE / "pipeline" / "data").rglob("*.py")),
    *sorted((SOURCE / "pipeline" / "streams" / "kernels").rglob("*.py")),
]
# Impure imports that a core may have, with the reason; each must be needed.
EXEMPT = {
    "protocol/types.py": {"os"},  # Uuid.random, the one source of identifiers
}
# How often a room says `Any`, for each 1,000 lines: these limits may only fall. A room that is not
# listed does not use it.
ANY_MAX = {
    "cli": 27,
    "cluster": 5,
    "config": 6,
    "coordinator": 3,
    "http": 7,
    "inspect": 13,
    "log": 1,
    "pipeline": 25,
    "protocol": 14,
    "registry": 26,
    "server": 9,
    "sockets": 5,  # the parts of what is sent: bytes-like or ranges of files
    "tasks": 37,
    "testing": 12,
}
# Modules that call ErrorCode: to catch its ValueError, or for a code of this process.
ERROR_CODE_CALLS = {
    "protocol/errors.py",
    "inspect/field_tree.py",
    "log/record_work/job_messages.py",
}
IMPURE = {"trio", "time", "random", "socket", "threading", "secrets", "os", "pathlib", "subprocess"}
# What no module may import that a core reaches, on any way.
IMPURE_ON_ANY_WAY = {
    *IMPURE,
    "asyncio",
    "fcntl",
    "http",
    "multiprocessing",
    "ssl",
    "urllib.request",
}
# Rooms whose objects a core is given: the caller that creates the objects opens their files.
GIVEN = ("barnabas.config", "barnabas.log")


@dataclass(frozen=True, slots=True)
class Module:
    """The parts of a module that the rules need; it is parsed once."""

    has_docstring: bool
    is_generated: bool
    lines: int
    function_lines: dict[str, int]
    asserts: list[int]
    error_code_calls: list[str]
    uses_of_any: int
    imports: set[str]  # of `from a import b`, both `a` and `a.b`, as either may be a module


@functools.cache
def facts(path: Path) -> Module:
    source = path.read_text()
    tree = ast.parse(source, filename=str(path))
    nodes = list(ast.walk(tree))
    doc = ast.get_docstring(tree) or ""
    return Module(
        has_docstring=bool(doc),
        is_generated="Generated" in doc,
        lines=len(source.splitlines()),
        function_lines={
            node.name: (node.end_lineno or 0) - node.lineno + 1
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        },
        asserts=[node.lineno for node in nodes if isinstance(node, ast.Assert)],
        error_code_calls=[ast.unparse(node) for node in nodes if is_error_code_call(node)],
        uses_of_any=uses_of_any(nodes),
        imports=set(imported(nodes)),
    )


def is_error_code_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "ErrorCode"
    )


def uses_of_any(nodes: Iterable[ast.AST]) -> int:
    """Return how often `Any` is used, in annotations that are strings too."""
    uses = 0
    for node in nodes:
        if isinstance(node, ast.Name):
            uses += node.id == "Any"
        elif isinstance(node, ast.Constant) and "Any" in str(node.value):
            with contextlib.suppress(SyntaxError):  # it is prose
                uses += uses_of_any(ast.walk(ast.parse(str(node.value), mode="eval")))
    return uses


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dotted(path: Path) -> str:
    """Return the name under which a module is imported."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def import_graph() -> dict[str, set[str]]:
    return {dotted(module): facts(module).imports for module in MODULES}


def is_below(module: str, rooms: Iterable[str]) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


def impure_ways(starts: Iterable[str]) -> Iterator[str]:
    """Yield each impure import that the modules reach, with the way to it."""
    graph = import_graph()
    ways = {start: start for start in starts}
    waiting = list(ways)
    while waiting:
        module = waiting.pop()
        for found in sorted(graph[module]):
            if found not in graph:
                if is_below(found, IMPURE_ON_ANY_WAY):
                    yield f"{ways[module]} > {found}"
            elif found not in ways and not is_below(found, GIVEN):
                ways[found] = f"{ways[module]} > {found}"
                waiting.append(found)


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_modules_open_with_a_docstring() -> None:
    assert [name(module) for module in MODULES if not facts(module).has_docstring] == []


def test_functions_fit_a_screen() -> None:
    long = [
        f"{name(module)}: {function} has {lines} lines"
        for module in MODULES
        for function, lines in facts(module).function_lines.items()
        if lines > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_modules_are_not_too_long() -> None:
    lines = {
        name(module): facts(module).lines for module in MODULES if not facts(module).is_generated
    }
    allowed = {path: LARGER_MODULES.get(Path(path).name, MODULE_LINES_MAX) for path in lines}
    assert {path: count for path, count in lines.items() if count > allowed[path]} == {}


def test_file_name_is_unique() -> None:
    """Tracebacks and search results show file names, so each names one role in one room."""
    names = Counter(module.name for module in MODULES)
    shared = {name for name, count in names.items() if count > 1}
    assert shared == {"__init__.py", "__main__.py"}


def test_source_has_no_assert() -> None:
    """Python drops assert under -O, so input must not be checked by assert."""
    found = {name(module): facts(module).asserts for module in MODULES}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_uses_of_any_stay_below_the_limit_of_their_room() -> None:
    uses, lines = Counter[str](), Counter[str]()
    for module in MODULES:
        room = module.relative_to(SOURCE).parts[0]
        uses[room] += facts(module).uses_of_any
        lines[room] += facts(module).lines
    rates = {room: 1000 * uses[room] / lines[room] for room in lines}
    assert {room: rate for room, rate in rates.items() if rate > ANY_MAX.get(room, 0)} == {}


def test_error_code_from_the_wire_is_read_with_its_function() -> None:
    """`ErrorCode(number)` raises ValueError for a code of a later version."""
    calls = {name(module): facts(module).error_code_calls for module in MODULES}
    found = {path: found for path, found in calls.items() if found}
    assert {path: len(calls) for path, calls in found.items()} == dict.fromkeys(
        ERROR_CODE_CALLS, 1
    ), found


def test_cores_import_no_clock_network_or_file() -> None:
    found = {
        name(module): IMPURE.intersection(each.partition(".")[0] for each in facts(module).imports)
        for module in SANS_IO
    }
    assert {path: names for path, names in found.items() if names} == EXEMPT


def test_cores_reach_no_clock_network_or_file_on_any_way() -> None:
    exempt = {f"barnabas.{name.removesuffix('.py').replace('/', '.')}" for name in EXEMPT}
    ways = impure_ways(dotted(module) for module in SANS_IO)
    assert [way for way in ways if way.split(" > ")[-2] not in exempt] == []


def test_way_to_an_impure_import_is_found_behind_other_modules() -> None:
    """A handler of the server imports no socket; the modules that it imports do."""
    ways = list(impure_ways(["barnabas.server.api.handlers.data.produce_handler"]))
    assert any(way.endswith(" > trio") and way.count(" > ") > 1 for way in ways)


@pytest.mark.timeout(600)  # it reads every file of the tree
def test_texts_use_no_banned_phrase() -> None:
    """When it fails: `python -m tests.language.banned PATH` shows each place and what to write."""
    found: dict[str, list[str]] = {}
    for text in tree_texts(ROOT):
        for phrase, instead in findings(text):
            found.setdefault(text.room, []).append(
                f"{text.file}:{text.line}: {text.kind} has '{phrase}', write: {instead}"
            )
    excess = {room: lines for room, lines in found.items() if len(lines) > ALLOWED.get(room, 0)}
    assert {room: (len(lines), ALLOWED.get(room, 0)) for room, lines in excess.items()} == {}, (
        "\n".join(line for lines in excess.values() for line in lines)
    )
