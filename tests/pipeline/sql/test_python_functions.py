"""Functions in Python: entry points of packages that are installed beside barnabas."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.pipeline.sql.functions.python_functions import PythonFunction
from barnabas.pipeline.sql.functions.resolution import all_functions, function, scalar
from barnabas.pipeline.sql.sql_failures import UnresolvedError
from barnabas.pipeline.sql.sql_types import BIGINT, INTEGER, STRING, array
from barnabas.sql_functions import scalar as declared

CODE = '''
from barnabas.sql_functions import scalar

@scalar("ARRAY<STRING>", "BIGINT", returns="STRING")
def chosen(texts, place):
    """One of the texts."""
    return texts[place]

@scalar("TXT", returns="STRING")
def wrong(text):
    return text

@scalar("STRING", returns="STRING, x")
def unfinished(text):
    return text

def plain(text):
    return text
'''

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install packages with entry points, given as `package=lines`."""
    (tmp_path / "texts_of_test.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "texts_of_test", raising=False)

    def installed(**packages: str) -> None:
        for name, lines in packages.items():
            info = tmp_path / f"{name}-1.2.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
            (info / "entry_points.txt").write_text(f"[barnabas.sql_functions]\n{lines}\n")

    return installed


def test_function_has_the_types_and_the_text_of_its_declaration(install: Install) -> None:
    install(texts="chosen = texts_of_test:chosen")
    found = function("CHOSEN")
    assert (found.name, found.category, found.since) == ("CHOSEN", "Python", "1.2")
    assert found.description == "One of the texts."
    assert [str(each) for each in found.signatures] == ["(ARRAY<STRING>, BIGINT) -> STRING"]
    assert scalar("CHOSEN", [array(STRING), INTEGER]).returns == STRING
    with pytest.raises(UnresolvedError, match="CHOSEN"):
        scalar("CHOSEN", [STRING, BIGINT])
    assert "CHOSEN" in [each.name for each in all_functions()]


def test_declared_function_is_called_as_before() -> None:
    @declared("BIGINT", returns="BIGINT")
    def double(value: int) -> int:
        return 2 * value

    assert isinstance(double, PythonFunction)
    assert double(4) == 8


def test_function_that_does_not_load_names_its_entry_point(install: Install) -> None:
    install(
        texts="lost = absent_of_test:lost\nmissing = texts_of_test:missing\n"
        "plain = texts_of_test:plain\nwrong = texts_of_test:wrong\n"
        "unfinished = texts_of_test:unfinished"
    )
    start = "The function {} does not load: the entry point {} of the package texts "
    reasons = {
        "lost = absent_of_test:lost": "raised ModuleNotFoundError: No module named "
        "'absent_of_test'",
        "missing = texts_of_test:missing": "raised AttributeError: module 'texts_of_test' has no "
        "attribute 'missing'",
        "plain = texts_of_test:plain": "is a function: decorate the function with "
        "barnabas.sql_functions.scalar",
        "wrong = texts_of_test:wrong": "has a type that is wrong: The type TXT is not known",
        "unfinished = texts_of_test:unfinished": "has a type that is wrong: line 1:",
    }
    for entry, reason in reasons.items():
        name = entry.partition(" ")[0].upper()
        with pytest.raises(UnresolvedError) as failure:
            function(name)
        assert str(failure.value).startswith(start.format(name, entry) + reason)
    assert "PLAIN" not in [each.name for each in all_functions()]


def test_functions_of_one_name_are_refused(install: Install) -> None:
    install(one="chosen = texts_of_test:chosen", two="Chosen = texts_of_test:wrong")
    with pytest.raises(UnresolvedError) as failure:
        function("CHOSEN")
    assert str(failure.value) == (
        "There are two functions CHOSEN: Chosen = texts_of_test:wrong of the package two and "
        "chosen = texts_of_test:chosen of the package one; uninstall one of them"
    )


def test_own_functions_win_and_near_names_are_named(install: Install) -> None:
    install(texts="ucase = texts_of_test:chosen\nchosen = texts_of_test:chosen")
    assert function("UCASE").category != "Python"
    with pytest.raises(UnresolvedError, match="did you mean CHOSEN"):
        function("CHOSN")
