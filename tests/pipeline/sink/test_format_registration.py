"""Sessions that `barnabas.spark.register` refuses."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline.sink import format_registration
from barnabas.pipeline.sink.sink_errors import SinkError
from barnabas.spark import register


def test_session_of_an_earlier_spark_is_refused() -> None:
    session: Any = SimpleNamespace(version="3.5.1")
    with pytest.raises(SinkError, match=r"needs PySpark 4, and this session is of 3\.5\.1"):
        register(session)


def test_python_of_workers_without_barnabas_is_refused(tmp_path: Path) -> None:
    command = tmp_path / "python"
    command.write_text("#!/bin/sh\necho \"No module named 'barnabas'\" >&2\nexit 1\n")
    command.chmod(0o755)
    context = SimpleNamespace(master="local[2]", pythonExec=str(command))
    session: Any = SimpleNamespace(dataSource=None, sparkContext=context)
    with pytest.raises(SinkError, match=f"PYSPARK_PYTHON={sys.executable}"):
        register(session)


def test_other_path_of_a_python_with_barnabas_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_registration, "_SOURCES", "barnabas.spark")
    command = tmp_path / "python"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    command.chmod(0o755)
    format_registration._check_python(str(command))
