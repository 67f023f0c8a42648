"""Settings of the Spark session."""

import os
import tomllib
from pathlib import Path

import pytest

from barnabas.pipeline.spark import class_archive, jar_cache, session
from barnabas.pipeline.spark.class_archive import NewArchive, java_major
from barnabas.pipeline.spark.jar_cache import Jars
from barnabas.pipeline.spark.session import SessionSettings, SparkUnavailableError

JARS = Jars((Path("/jars/a.jar"), Path("/jars/b.jar")))


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(jar_cache, "spark_version", lambda: "4.0.0")
    monkeypatch.setattr(class_archive, "java_command", lambda: "/usr/bin/java")
    monkeypatch.setattr(class_archive, "java_version", lambda: 'openjdk version "17.0.19"')


def properties(settings: SessionSettings) -> dict[str, str]:
    return session.spark_properties(settings, JARS, class_archive.Choice(("-XX:X",)))


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://h:7077", "yarn"])
@pytest.mark.usefixtures("present")
def test_master_that_is_not_local_needs_a_shared_checkpoint_directory(master: str) -> None:
    with pytest.raises(SparkUnavailableError, match=r"needs checkpoint\.dir"):
        session.check(SessionSettings(Path("/w"), master=master))
    session.check(SessionSettings(Path("/w"), master=master, checkpoint_directory="hdfs://h/c"))


@pytest.mark.usefixtures("present")
def test_local_master_needs_no_checkpoint_directory() -> None:
    session.check(SessionSettings(Path("/w"), master="local[2]"))


@pytest.mark.usefixtures("present")
def test_missing_java_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "java_command", lambda: None)
    with pytest.raises(SparkUnavailableError, match="openjdk-17-jdk"):
        session.check(SessionSettings(Path("/w")))


@pytest.mark.usefixtures("present")
def test_java_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "java_version", lambda: 'openjdk version "11.0.2"')
    with pytest.raises(SparkUnavailableError, match=r"Java 11 is too old .* JDK 17 or 21"):
        session.check(SessionSettings(Path("/w")))


@pytest.mark.usefixtures("present")
@pytest.mark.parametrize("version", ["4.3.0", "4.0.1", "3.5.8"])
def test_pyspark_that_no_test_covers_is_refused_with_the_one_to_install(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar_cache, "spark_version", lambda: version)
    with pytest.raises(SparkUnavailableError, match=f"{version} .* pip install pyspark==4.0.0"):
        session.check(SessionSettings(Path("/w")))


def test_extra_installs_the_versions_of_pyspark_that_a_session_takes() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["spark"]
    (found,) = [each for each in extra if each.startswith("pyspark")]
    assert [f"pyspark=={each}" for each in jar_cache.SUPPORTED_VERSIONS] == [found]


def test_local_session_has_the_jars_on_its_class_path() -> None:
    found = properties(SessionSettings(Path("/w"), master="local[2]"))
    assert found["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert "spark.jars" not in found
    assert found["spark.sql.adaptive.enabled"] == "false"
    assert found["spark.sql.constraintPropagation.enabled"] == "false"
    assert "FileSystemBased" in found["spark.sql.streaming.checkpointFileManagerClass"]


def test_session_has_what_its_table_formats_need():
    found = properties(SessionSettings(Path("/w"), formats=("delta", "iceberg")))
    assert found["spark.barnabas.formats"] == "delta,iceberg"
    assert len(found["spark.sql.extensions"].split(",")) == 2
    assert found["spark.sql.catalog.default_iceberg.type"] == "hadoop"
    assert found["spark.sql.catalog.default_iceberg.warehouse"] == "/w/warehouse"
    assert "delta" in found["spark.sql.catalog.spark_catalog"]
    assert not any("catalog" in name for name in properties(SessionSettings(Path("/w"))))


def test_cluster_session_ships_the_jars() -> None:
    settings = SessionSettings(
        Path("/w"), master="spark://h:7077", checkpoint_directory="hdfs://h/c"
    )
    found = properties(settings)
    assert found["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert "spark.sql.streaming.checkpointFileManagerClass" not in found


def test_cluster_session_sends_the_packages_in_addition_to_those_of_the_user() -> None:
    own = {"spark.archives": "hdfs://h/a.zip", "spark.executorEnv.PYTHONPATH": "/opt/x"}
    settings = SessionSettings(Path("/w"), "yarn", "hdfs://h/c", properties=own)
    choice = class_archive.Choice(("-XX:X",))
    found = session.spark_properties(settings, JARS, choice, Path("/cache/w.tar.gz"))
    assert found["spark.archives"] == "hdfs://h/a.zip,/cache/w.tar.gz#barnabas-workers"
    assert found["spark.executorEnv.PYTHONPATH"] == "barnabas-workers:/opt/x"
    local = properties(SessionSettings(Path("/w"), "local[2]", properties=own))
    assert local["spark.archives"] == "hdfs://h/a.zip"


def test_properties_of_the_user_replace_ours_and_java_options_are_added() -> None:
    user = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dx=1"}
    found = properties(SessionSettings(Path("/w"), master="local[2]", properties=user))
    assert found["spark.ui.enabled"] == "true"
    options = found["spark.driver.extraJavaOptions"].split()
    assert {"-XX:+UseSerialGC", "-XX:X", "-Dx=1"} <= set(options)


@pytest.mark.parametrize(
    ("text", "major"),
    [('openjdk version "17.0.9" 2023', 17), ('java version "1.8.0_392"', 8), ("", 0)],
)
def test_java_version_is_read(text: str, major: int) -> None:
    assert java_major(text) == major


def test_class_archive_is_published_when_it_is_complete(tmp_path: Path) -> None:
    archive = NewArchive(tmp_path / "partial", tmp_path / "final")
    archive.keep()
    assert not archive.final.exists()
    archive.partial.write_bytes(b"")
    archive.keep()
    assert list(tmp_path.iterdir()) == []
    archive.partial.write_bytes(b"classes")
    archive.keep()
    assert archive.final.read_bytes() == b"classes"


@pytest.mark.usefixtures("present")
def test_class_archive_belongs_to_the_files_of_its_class_path(tmp_path: Path) -> None:
    """The JVM ignores an archive of another directory, of a newer file or of another order."""
    cache, *places = (tmp_path / name for name in ("cache", "one", "two"))
    for place in (cache, *places):
        place.mkdir()
    one, two = (place / "a.jar" for place in places)
    for jar in (one, two):
        jar.write_bytes(b"classes")
        os.utime(jar, ns=(0, 0))
    new = class_archive.choose(cache, [one]).new
    assert new is not None
    new.final.write_bytes(b"archive")
    assert class_archive.choose(cache, [one]).options[0] == f"-XX:SharedArchiveFile={new.final}"
    others = [class_archive.choose(cache, paths).new for paths in ([two], [one, two], [two, one])]
    os.utime(one, ns=(0, 1))
    others.append(class_archive.choose(cache, [one]).new)
    assert len({other and other.final for other in others} - {None, new.final}) == len(others)


@pytest.mark.usefixtures("present")
def test_class_archives_that_no_jvm_uses_are_removed(tmp_path: Path) -> None:
    jar, old, used = (tmp_path / name for name in ("a.jar", "classes-1.7", "classes-2.jsa"))
    for path in (jar, old, used):
        path.touch()
    os.utime(old, (0, 0))
    class_archive.choose(tmp_path, [jar])
    assert set(tmp_path.iterdir()) == {jar, used}


def test_jars_of_the_cache_are_found_for_this_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar_cache, "spark_version", lambda: "4.0.0")
    assert jar_cache.find(tmp_path) is None
    (tmp_path / "jars-4.0.0").mkdir()
    (tmp_path / "jars-4.0.0" / "a.jar").touch()
    assert jar_cache.find(tmp_path) == Jars((tmp_path / "jars-4.0.0" / "a.jar",))


@pytest.mark.usefixtures("present")
def test_jars_that_cannot_be_fetched_stop_the_start_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failed:
        returncode = 1
        stderr = "log\n:::: unresolved dependency: org#a;4.0.0: not found\nException in thread"

    monkeypatch.setattr(jar_cache, "spark_version", lambda: "4.0.0")
    monkeypatch.setattr(jar_cache, "_pyspark_directory", lambda: tmp_path)
    monkeypatch.setattr(jar_cache.subprocess, "run", lambda *_, **__: Failed())
    settings = SessionSettings(tmp_path, cache_directory=tmp_path / "cache")
    with pytest.raises(SparkUnavailableError, match="unresolved dependency: org#a") as info:
        session.SparkProcess.start(settings)
    assert "\n" not in str(info.value)
    assert list((tmp_path / "cache").iterdir()) == []
