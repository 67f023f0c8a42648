"""The text of `App.describe`, beside that of `Topology.describe()` of Kafka Streams."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from barnabas import streams as ks
from compat_tests import jars
from compat_tests import spark as setup
from compat_tests.pipeline.streams_parity.our_descriptions import DESCRIPTIONS

pytestmark = [setup.needed, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"
SOURCE = Path(__file__).with_name("TopologyPeer.java")


@pytest.fixture(scope="module")
def theirs() -> dict[str, str]:
    if reason := jars.missing():
        pytest.skip(reason)
    options = [*jars.TOOL_OPTIONS, *jars.archive_options()]
    command = ["java", *options, "-cp", jars.classpath(), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_each_topology_of_kafka_streams_is_described_here(theirs: dict[str, str]) -> None:
    assert sorted(theirs) == sorted(DESCRIPTIONS)


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_description_is_what_kafka_streams_prints(
    engine: Any, theirs: dict[str, str], name: str, tmp_path: Path
) -> None:
    app = ks.App.attach(engine.session, "app", "127.0.0.1:1", state=tmp_path)
    try:
        assert described(app, name) == theirs[name]
    finally:
        app.stop()


def described(app: ks.App, name: str) -> str:
    """Return what an app prints, or that it refuses its operators."""
    try:
        DESCRIPTIONS[name](app)
    except ks.OperatorError:
        return "refused"
    return app.describe()


def test_example_of_the_page_prints_and_draws_its_topology(
    engine: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (block,) = [each for each in blocks if "app.describe()" in each]
    monkeypatch.chdir(tmp_path)
    app = ks.App.attach(engine.session, "app", "127.0.0.1:1", state=tmp_path)
    try:
        exec(block, {"app": app, "ks": ks})
    finally:
        app.stop()
    assert "(topics: [by-user-repartition])" in capsys.readouterr().out
    assert "by-user-repartition-sink" in (tmp_path / "topology.svg").read_text()


def test_state_of_each_query_is_described(engine: Any, tmp_path: Path) -> None:
    app = ks.App.attach(engine.session, "app", "127.0.0.1:1", state=tmp_path)
    try:
        clicks = app.topic("clicks", key=ks.String(), value=ks.String())
        app.write(clicks.filter("value IS NOT NULL"), "copy")
        app.write(clicks.group_by_key().count(), "counts")
        app.write(clicks.window(ks.tumbling("1 minute")).count(), "by-minute")
        app.write(clicks.window(ks.tumbling("1 minute")).count().final(), "closed")
        totals = clicks.group_by_key().reduce(lambda total, value: total + value)
        app.write(totals.suppress("1 minute"), "totals")
        lines = app.describe("state").splitlines()
    finally:
        app.stop()
    assert lines[:6] == [
        "Query app-copy: no state",
        "Query app-counts: Aggregate in Spark's state by key",
        "Query app-by-minute: Aggregate in Spark's state by key",
        "Query app-closed: windows in 256 buckets by key",
        "Query app-totals: stream-aggregate > suppress in 256 buckets by key",
        "",
    ]
    assert lines[6].startswith("Buckets by key: one value in Spark's state for each bucket")
    assert any(line.startswith("Spark's state by key: one value for each key") for line in lines)


def test_another_format_is_refused(engine: Any, tmp_path: Path) -> None:
    app = ks.App.attach(engine.session, "app", "127.0.0.1:1", state=tmp_path)
    try:
        with pytest.raises(ValueError, match="format is text, svg or state, not 'png'"):
            app.describe("png")
    finally:
        app.stop()
