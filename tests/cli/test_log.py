"""`barnabas log` on directories that no node uses."""

from pathlib import Path

import pytest

from tests.log.logs import append, new_log, open_volume

from .conftest import Barnabas


@pytest.fixture
def data(tmp_path: Path) -> Path:
    log = new_log(open_volume(tmp_path / "data"))
    for number in range(20):
        append(log, b"%d" % number)
    log.close()
    log.volume.unlock()
    return tmp_path / "data"


def test_undamaged_directory_is_verified(barnabas: Barnabas, data: Path) -> None:
    (data / "t-0.0123456789abcdef0123456789abcdef-future").mkdir()
    size = (data / "t-0" / f"{0:020}.log").stat().st_size
    for directory in (data, data / "t-0"):
        outcome = barnabas("log", "verify", str(directory))
        assert (outcome.code, outcome.out) == (0, f"1 segment, {size:,} bytes, 0 damaged\n")


def test_damage_is_shown_and_exit_code_is_1(barnabas: Barnabas, data: Path) -> None:
    segment = data / "t-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    shown = barnabas("log", "verify", str(data))
    assert shown.code == 1
    assert f"{0:020}.log" in shown.out
    assert "wrong crc" in shown.out
    [fault] = barnabas("log", "verify", str(data), "--json").data["damaged"]
    assert fault["segment"] == str(segment)
    assert segment.read_bytes() == content


def test_missing_directory_is_refused(barnabas: Barnabas, data: Path) -> None:
    outcome = barnabas("log", "verify", str(data / "else"))
    assert (outcome.code, "is not a directory" in outcome.err) == (1, True)


def test_directory_in_use_is_refused(barnabas: Barnabas, data: Path) -> None:
    volume = open_volume(data)
    outcome = barnabas("log", "verify", str(data))
    volume.unlock()
    assert outcome.code == 1
    assert "in use by another node: stop that one" in outcome.err
