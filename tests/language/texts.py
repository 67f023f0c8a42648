"""Collect the texts that people read in this repository: messages, documentation, names.

`Text.kind` is one of `log`, `error`, `help`, `docstring`, `comment`, `string`, `test name` and
`page`. `log` and `error` texts carry placeholders as they are written in the source.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
# Callables that build or report an error although their names do not end in "Error".
_REFUSALS = frozenset({"CorruptBatch", "RecordWorkNeeded", "complain", "_refuse", "_fail"})
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# A tenth of the time of `tokenize`. Strings are found because they may have a "#".
_COMMENT_OR_STRING = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|"(?:\\.|[^"\\\n])*"'''
    r"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'(?:\\.|[^'\\\n])*'|\#[^\n]*""",
    re.DOTALL,
)
_PRAGMA = re.compile(r"#\s*(noqa|type:|pyright:|fmt:|example:|!)")
# Pages that are printed from the declarations, whose own texts are checked where they are written.
GENERATED_PAGES = frozenset({"protocol.md", "configuration.md", "messages.md", "public-names.md"})


class Text(NamedTuple):
    """One text and the place where it is written."""

    kind: str
    file: str
    line: int
    text: str
    detail: str = ""

    @property
    def room(self) -> str:
        """Return the part of the repository that owns the text: `log`, `tests/log`, `docs`."""
        parts = Path(self.file).parts
        if parts[:2] == ("src", "barnabas"):
            return parts[2] if len(parts) > 3 else "barnabas"
        if parts[0] == "tests":
            return "/".join(parts[:2]) if len(parts) > 2 else "tests"
        return parts[0] if len(parts) > 1 else "project"


def module_texts(root: Path, path: Path) -> Iterator[Text]:
    """Yield every text of one Python module."""
    name = path.relative_to(root).as_posix()
    source = path.read_text()
    nodes = list(ast.walk(ast.parse(source, filename=name)))
    claimed: set[int] = set()
    for text, arguments in _calls(nodes, name):
        claimed.update(id(part) for argument in arguments for part in ast.walk(argument))
        yield text
    yield from _docstrings(nodes, name, claimed)
    yield from _strings(nodes, name, claimed)
    yield from _comments(source, name)
    if Path(name).name.startswith("test_"):
        for node in nodes:
            is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if is_definition and node.name.lower().startswith("test"):
                yield Text("test name", name, node.lineno, _words(node.name))


def page_texts(root: Path, path: Path) -> Iterator[Text]:
    """Yield the paragraphs of a page, without its code blocks."""
    name = path.relative_to(root).as_posix()
    fenced, paragraph, start = False, list[str](), 1
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        breaks = not line.strip() or fenced or line.startswith(("#", "|", "- ", "```"))
        if breaks and paragraph:
            yield Text("page", name, start, " ".join(paragraph))
            paragraph = []
        if line.strip() and not fenced and not line.startswith("```"):
            start = number if not paragraph else start
            paragraph.append(line.strip())


def tree_texts(root: Path = ROOT, rooms: tuple[str, ...] = ()) -> Iterator[Text]:
    """Yield the texts of a whole tree; `rooms` limits it to some paths below `root`."""
    for part in rooms or ("src", "tests", "compat_tests", "bench"):
        base = root / part
        for path in [base] if base.is_file() else sorted(base.rglob("*.py")):
            if path.parent == Path(__file__).parent:
                continue  # the list of banned phrases
            yield from module_texts(root, path)
    if rooms:
        return
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        if path.name not in GENERATED_PAGES | {"CHANGELOG.md"}:
            yield from page_texts(root, path)


def _calls(nodes: list[ast.AST], name: str) -> Iterator[tuple[Text, list[ast.expr]]]:
    for node in nodes:
        if isinstance(node, ast.Call):
            found = _message_of(node)
            if found is not None:
                kind, detail, argument = found
                yield Text(kind, name, node.lineno, rendered(argument), detail), [argument]
            for keyword in node.keywords:
                if keyword.arg in ("help", "short_help", "epilog") and _is_text(keyword.value):
                    text = rendered(keyword.value)
                    yield Text("help", name, keyword.value.lineno, text), [keyword.value]
                elif keyword.arg == "error_message" and _is_text(keyword.value):
                    text = rendered(keyword.value)
                    yield Text("error", name, node.lineno, text, "error_message"), [keyword.value]
        elif isinstance(node, ast.FunctionDef) and _returns_a_reason(node):
            for part in ast.walk(node):
                if isinstance(part, ast.Return) and part.value and _is_text(part.value):
                    text = rendered(part.value)
                    yield Text("error", name, part.lineno, text, node.name), [part.value]


def _message_of(call: ast.Call) -> tuple[str, str, ast.expr] | None:
    """Return (kind, detail, argument) when `call` logs a line or builds an error."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if (
        isinstance(function, ast.Attribute)
        and called in _LEVELS
        and "log" in ast.unparse(function.value).lower()
        and call.args
        and _is_text(call.args[0])
    ):
        return "log", called, call.args[0]
    if called.endswith(("Error", "Exception")) or called in _REFUSALS:
        for argument in call.args:
            if _is_text(argument):
                codes = [a.attr for a in call.args if isinstance(a, ast.Attribute)]
                return "error", " ".join([called, *codes[:1]]), argument
    return None


def _returns_a_reason(node: ast.FunctionDef) -> bool:
    """Return True when the function returns the reason of a refusal, or None."""
    annotation = ast.unparse(node.returns) if node.returns else ""
    return annotation == "str | None" and any(
        isinstance(part, ast.Return) and isinstance(part.value, ast.JoinedStr | ast.Constant)
        and _is_text(part.value) and " " in rendered(part.value)
        for part in ast.walk(node)
    )  # fmt: skip


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right))
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) or _is_text(node.orelse)
    return isinstance(node, ast.JoinedStr)


def rendered(node: ast.expr) -> str:
    """Return the text of a string expression, with `{expression}` where values go."""
    if isinstance(node, ast.Constant):
        return _words(str(node.value))
    if isinstance(node, ast.JoinedStr):
        return _words("".join(_part(value) for value in node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{rendered(node.left)}{rendered(node.right)}"
    if isinstance(node, ast.IfExp) and _is_text(node.body) and _is_text(node.orelse):
        return f"{rendered(node.body)} | {rendered(node.orelse)}"
    return f"{{{_words(ast.unparse(node))}}}"


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return f"{{{_words(ast.unparse(node.value))}}}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _docstrings(nodes: list[ast.AST], name: str, claimed: set[int]) -> Iterator[Text]:
    for node in nodes:
        if isinstance(node, _DOCUMENTED) and (doc := ast.get_docstring(node)):
            claimed.add(id(node.body[0].value))  # pyright: ignore
            line = getattr(node, "lineno", 1)
            yield Text("docstring", name, line, _words(doc), getattr(node, "name", ""))


def _strings(nodes: list[ast.AST], name: str, claimed: set[int]) -> Iterator[Text]:
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in claimed or id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            text = rendered(node)
            if " " in text:
                yield Text("string", name, node.lineno, text)


def _comments(source: str, name: str) -> Iterator[Text]:
    """Yield comments; consecutive comment lines are one text."""
    lines: list[str] = []
    start = row = 1
    seen = 0
    for found in _COMMENT_OR_STRING.finditer(source):
        if found[0][0] != "#" or _PRAGMA.match(found[0]):
            continue
        row += source.count("\n", seen, found.start())
        seen = found.start()
        alone = not source[source.rfind("\n", 0, seen) + 1 : seen].strip()
        if lines and not (alone and row == start + len(lines)):
            yield Text("comment", name, start, _words(" ".join(lines)))
            lines = []
        start = start if lines else row
        lines.append(found[0].lstrip("#").strip())
    if lines:
        yield Text("comment", name, start, _words(" ".join(lines)))


def _words(text: str) -> str:
    if text.startswith("test_"):
        text = text.replace("_", " ")
    leading, trailing = text[:1] == " ", text[-1:] == " "
    return f"{' ' * leading}{' '.join(text.split())}{' ' * (trailing and bool(text.strip()))}"
