"""Tables and lines whose texts come from clients of the server."""

import sys

import pytest
from rich.console import Console

from barnabas.cli import job_view
from barnabas.cli.command_errors import complain
from barnabas.cli.terminal_output import print_line, print_table

NAME = "a\nb\x1b[31m[/x]<b>"
SHOWN = r"a\nb\x1b[31m[/x]<b>"


def test_name_with_control_characters_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("GROUP", "STATE"), [(NAME, None)])
    assert capsys.readouterr().out.splitlines()[1:] == [f"{SHOWN}  -"]


def test_columns_begin_at_one_place_behind_wide_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("名", "N"), [("日本", 1), ("abcde", 2)])
    assert capsys.readouterr().out == "名     N\n日本   1\nabcde  2\n"


def test_terminal_does_not_obey_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(("GROUP",), [(NAME,)])
    print_line(f"group {NAME}")
    complain(f"group {NAME} does not exist")
    output = capsys.readouterr()
    assert output.out.count(SHOWN) == 2
    assert r"a b\x1b[31m[/x]<b>" in output.err


def test_watched_job_may_have_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndOfWatchError(Exception):
        """Raised in place of the first pause."""

    shown: list[str] = []

    class Screen:
        """A rich.live.Live that shows its first table."""

        def __init__(self, table: object, **_: object) -> None:
            console = Console(width=80)
            with console.capture() as capture:
                console.print(table)
            shown.append(capture.get())

        def __enter__(self) -> None:
            raise EndOfWatchError

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("rich.live.Live", Screen)
    with pytest.raises(EndOfWatchError):
        job_view.watch_jobs(("JOB",), lambda: [(NAME,)])
    assert SHOWN in shown[0]
