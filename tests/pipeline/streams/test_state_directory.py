"""The directory of an app: one process at a time, scratch files of the last one removed."""

from pathlib import Path

import pytest

from barnabas.pipeline.streams.state_directory import (
    StateDirectory,
    StateInUseError,
    StateUnusableError,
    check_name,
    default_root,
)


def test_directory_of_a_running_app_is_refused_to_another(tmp_path: Path) -> None:
    first, second = StateDirectory(tmp_path / "app"), StateDirectory(tmp_path / "app")
    first.lock()
    first.lock()
    with pytest.raises(StateInUseError, match=str(tmp_path / "app")):
        second.lock()
    first.release()
    second.lock()
    second.release()


def test_directory_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnusableError, match=r"file/app \(Not a directory\): let this user"):
        StateDirectory(tmp_path / "file" / "app").lock()


def test_lock_keeps_checkpoints_and_removes_scratch_files(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path)
    state.lock()
    state.release()
    checkpoint = Path(state.checkpoint("query"))
    checkpoint.mkdir(parents=True)
    (state.work / "left").touch()
    state.lock()
    assert checkpoint.is_dir()
    assert list(state.work.iterdir()) == []
    state.release()


def test_state_at_a_uri_has_its_checkpoints_there_and_its_files_on_this_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    state = StateDirectory.of("app", "s3a://bucket/state/")
    assert state.checkpoint("query") == "s3a://bucket/state/checkpoints/query"
    assert state.checkpoints == "s3a://bucket/state/checkpoints"
    state.lock()
    assert state.work.is_relative_to(default_root() / "app")
    assert state.views.is_relative_to(default_root() / "app")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    state.release()


@pytest.mark.parametrize("given", ["file:///var/my%20app", "file:/var/my%20app", "/var/my app"])
def test_state_of_a_local_uri_is_its_path(given: str) -> None:
    assert StateDirectory.of("app", given).views == Path("/var/my app/views")


@pytest.mark.parametrize("given", ["s3a:", "state/a:b", "C:app"])
def test_state_with_a_colon_that_is_not_a_uri_is_a_path(given: str) -> None:
    assert StateDirectory.of("app", given).views == Path(given) / "views"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 201])
def test_name_that_cannot_name_files_and_groups_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid name"):
        check_name(name)


def test_state_is_below_the_users_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_root() == Path("/var/state/barnabas/streams")
