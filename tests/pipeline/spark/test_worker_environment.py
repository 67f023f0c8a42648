"""The archive of packages for workers on other hosts."""

import os
import tarfile
from importlib import metadata
from pathlib import Path

import pytest

from barnabas.pipeline.spark import worker_environment
from barnabas.pipeline.spark.worker_environment import find_or_pack


@pytest.fixture
def few_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pack one small package instead of PyArrow and the others."""
    packages = {"attrs": metadata.distribution("attrs")}
    monkeypatch.setattr(worker_environment, "_packages", lambda: packages)


@pytest.mark.usefixtures("few_packages")
def test_archive_has_barnabas_and_packages_without_what_tasks_do_not_import(tmp_path: Path) -> None:
    with tarfile.open(find_or_pack(tmp_path)) as archive:
        names = archive.getnames()
    assert "barnabas/pipeline/delivery/worker_tasks.py" in names
    assert "attr/__init__.py" in names
    assert any(name.endswith(".dist-info/METADATA") for name in names)
    assert not [name for name in names if name.endswith(".pyc") or "__pycache__" in name]
    assert not [name for name in names if name.startswith(("/", ".."))]


@pytest.mark.usefixtures("few_packages")
def test_archive_is_packed_once_and_again_when_a_package_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_or_pack(tmp_path)
    assert find_or_pack(tmp_path) == first
    assert list(tmp_path.iterdir()) == [first]
    monkeypatch.setattr(worker_environment, "_packages", dict)
    assert find_or_pack(tmp_path) != first


@pytest.mark.usefixtures("few_packages")
def test_archive_that_no_runner_uses_is_removed(tmp_path: Path) -> None:
    old = tmp_path / "workers-0.tar.gz"
    old.touch()
    os.utime(old, (0, 0))
    assert list(tmp_path.iterdir()) == [old]
    found = find_or_pack(tmp_path)
    assert list(tmp_path.iterdir()) == [found]


@pytest.mark.usefixtures("few_packages")
def test_archive_that_another_runner_removes_meanwhile_is_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: True)  # it was there a moment ago
    assert tarfile.is_tarfile(find_or_pack(tmp_path))


def test_old_archive_that_another_runner_removes_meanwhile_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "workers-1.tar.gz"
    old.touch()
    os.utime(old, (0, 0))
    removed = tmp_path / "workers-0.tar.gz"
    monkeypatch.setattr(Path, "glob", lambda *_: [removed, old])
    worker_environment._remove_old(tmp_path)
    assert not old.exists()


def test_packages_are_those_of_the_extra_with_what_they_require() -> None:
    """Packages that are not installed are left out, as is Spark itself."""
    found = worker_environment._packages()
    assert {"attrs", "trio", "confluent-kafka"} <= found.keys()
    assert not {"pyspark", "py4j", "barnabas", "pytest"} & found.keys()


def test_packages_have_the_drivers_of_databases_with_their_own_extras() -> None:
    assert {"psycopg", "psycopg-binary", "sqlalchemy"} <= worker_environment._packages().keys()


def test_package_is_required_once_with_each_of_its_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "barnabas": ['driver[fast, safe]>=3; extra == "jdbc"', "base", 'web; extra == "registry"'],
        "driver": [
            "base",
            'quick==1 ; extra == "fast"',
            'lock; extra=="safe"',
            'x; extra == "dev"',
        ],
    }
    monkeypatch.setattr(metadata, "requires", lambda name: texts.get(name))
    monkeypatch.setattr(metadata, "distribution", lambda name: name)
    monkeypatch.setattr(metadata, "entry_points", lambda group: ())
    assert list(worker_environment._packages()) == ["base", "driver", "lock", "quick"]
