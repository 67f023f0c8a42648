"""The documentation against the code: names that exist, pages that are current."""

import ast
import builtins
import functools
import re
from pathlib import Path

import pytest

from tests.language import messages_page, public_names
from tests.language.texts import tree_texts

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "barnabas"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
PACKAGES = sorted(SOURCE.rglob("__init__.py"))
STEMS = {path.stem for path in SOURCE.rglob("*.py")} | {path.parent.name for path in PACKAGES}
# Hidden directories have environments and caches, a hundred thousand files.
FILES = [
    file.relative_to(ROOT).as_posix()
    for directory in ROOT.iterdir()
    if directory.is_dir() and not directory.name.startswith(".")
    for file in directory.rglob("*.py")
]
CONTINUED = (
    "sql.create_statement(",
    "from barnabas.pipeline.streams.kernels.bucket_state",
    "df = requests.df.selectExpr",
)
"""The starts of examples that continue others."""
# Paths that a page invents for an example.
EXAMPLES = {"src/barnabas/protocol/messages/greet.py"}


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_module_named_in_a_page_exists(page: Path) -> None:
    missing = [
        path
        for path in re.findall(r"`([\w/]+/[\w/]+\.py|[\w]+_\w+\.py)`", page.read_text())
        if path not in EXAMPLES
        and not any(file == path or file.endswith(f"/{path}") for file in FILES)
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_example_in_python_has_its_imports(page: Path) -> None:
    """A reader runs a block as it is printed, unless it continues the block before."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    whole = [block for block in blocks if not block.startswith(CONTINUED)]
    missing = {block.splitlines()[0]: undefined(block) for block in whole}
    assert page.name == "adding-an-api.md" or not any(missing.values()), missing


def undefined(code: str) -> set[str]:
    """Return the names that a program reads and that it neither defines nor imports."""
    defined, read = set(dir(builtins)), set[str]()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
    return read - defined


def test_architecture_names_every_package() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    named = set(re.findall(r"^\| `([\w/]+)/` \|", text, re.MULTILINE))
    packages = {path.parent.relative_to(SOURCE).as_posix() for path in PACKAGES} - {"."}
    assert packages - named == set()
    assert {each for each in named if not (SOURCE / each).is_dir()} == set()


def test_readme_links_every_page_of_the_documentation() -> None:
    text = (ROOT / "README.md").read_text()
    pages = [f"docs/{page.relative_to(ROOT / 'docs').as_posix()}" for page in DOCS]
    assert [page for page in pages if f"({page})" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_link_to_a_file_of_the_project_exists(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_names_in_package_docstrings_exist() -> None:
    """A name in backticks is a module, or a name in the code of the package."""
    missing: list[str] = []
    for package in PACKAGES:
        doc = ast.get_docstring(ast.parse(package.read_text())) or ""
        tokens = set(re.findall(r"`([a-z][a-z_]*(?:/[a-z_]+)*(?:\.py)?)`", doc))
        known = STEMS | identifiers(package.parent)
        stems = {token: token.removesuffix(".py").rpartition("/")[2] for token in tokens}
        missing += [f"{name(package)}: {t}" for t, stem in stems.items() if stem not in known]
    assert missing == []


def identifiers(package: Path) -> set[str]:
    """Return the names in the code of a package, and the strings that are single words."""
    return set[str]().union(*(identifiers_of_module(module) for module in package.rglob("*.py")))


@functools.cache
def identifiers_of_module(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(re.findall(r"[a-z_]+", node.value) if len(node.value) < 60 else ())
    return found


def test_help_of_make_shows_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY:((?:.*\\\n)*.*)", text, re.MULTILINE)
    assert phony is not None
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    assert set(phony[1].replace("\\", "").split()) == targets
    help_lines = "\n".join(re.findall(r"^#  .*", text, re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", help_lines)) == targets


def test_page_of_messages_is_current() -> None:
    """When it fails: `make docs`."""
    current = "\n".join(messages_page.page(list(tree_texts(rooms=("src/barnabas",))))) + "\n"
    assert (ROOT / "docs/reference/messages.md").read_text() == current


def test_page_of_public_names_is_current() -> None:
    """When it fails: `make docs`."""
    current = "\n".join(public_names.page()) + "\n"
    assert (ROOT / "docs/reference/public-names.md").read_text() == current


def test_public_names_of_the_first_version_are_kept() -> None:
    kept = set((ROOT / "tests/data/public-names-0.1.0.txt").read_text().splitlines())
    assert kept - set(public_names.names()) == set()
