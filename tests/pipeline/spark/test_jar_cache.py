"""Spark's connector in the user's cache, which several processes may fetch at the same time."""

import importlib.util
from pathlib import Path

import pytest

from barnabas.pipeline.spark import jar_cache
from barnabas.pipeline.spark.jar_cache import JarsUnavailableError


def test_jars_that_another_process_has_fetched_meanwhile_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar_cache, "spark_version", lambda: "4.0.0")
    monkeypatch.setattr(jar_cache, "_pyspark_jars", lambda: tmp_path / "pyspark")
    target = tmp_path / "jars-4.0.0"

    def resolve(_: str, scratch: Path) -> list[Path]:
        target.mkdir()
        (target / "connector.jar").write_text("theirs")
        jar = scratch / "org_connector.jar"
        jar.write_text("ours")
        return [jar]

    monkeypatch.setattr(jar_cache, "_resolve", resolve)
    # The other process finishes between the look at the directory and the renaming.
    monkeypatch.setattr(Path, "exists", lambda _: False)
    (found,) = jar_cache.find_or_fetch(tmp_path).files
    assert found.read_text() == "theirs"


def test_packages_of_another_program_are_fetched_with_the_jars_that_pyspark_has_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "common.jar").touch()
    monkeypatch.setattr(jar_cache, "_pyspark_jars", lambda: tmp_path / "pyspark")
    seen: list[str] = []

    def resolve(packages: str, scratch: Path) -> list[Path]:
        seen.append(packages)
        found = [scratch / "org_common.jar", scratch / "org.example_own-1.jar"]
        for jar in found:
            jar.touch()
        return found

    monkeypatch.setattr(jar_cache, "_resolve", resolve)
    found = jar_cache.fetch_into(tmp_path / "java" / "jars", ["a:b:1", "c:d:2"])
    assert seen == ["a:b:1,c:d:2"]
    assert [each.name for each in found.files] == ["common.jar", "own-1.jar"]
    assert [each.name for each in (tmp_path / "java").iterdir()] == ["jars"]


def test_missing_pyspark_is_named_with_the_extra_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JarsUnavailableError, match=r"is missing: pip install 'barnabas\[spark\]'"):
        jar_cache.fetch_into(tmp_path / "jars", ["org.example:a:1"])
