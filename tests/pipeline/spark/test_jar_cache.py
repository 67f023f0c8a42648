"""Spark's connector in the user's cache, which several processes may fetch at the same time."""

from pathlib import Path

import pytest

from barnabas.pipeline.spark import jar_cache


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
