"""The test driver of `barnabas.streams`: topologies on Spark, without Kafka."""

import pytest

from barnabas import streams as ks
from compat_tests import spark as setup

pytestmark = [
    pytest.mark.skipif(setup.missing() is not None, reason=setup.missing() or ""),
    pytest.mark.timeout(300),
]

CLICK = ks.Json("user STRING, url STRING, ms BIGINT")


def clicks(app: ks.App) -> None:
    found = app.topic("clicks", key=ks.String(), value=CLICK, on_error="dead-letter")
    app.write(found.filter("url <> '/health'").map_values("upper(url)"), "urls")
    app.write(found.group_by("user").count(), "per-user")
    windows = found.group_by("user").window(ks.tumbling("100 milliseconds")).count()
    app.write(windows.final(), "per-window")


def click(user: str, url: str) -> dict[str, object]:
    return {"user": user, "url": url, "ms": 0}


def test_topology_runs_as_in_an_app(engine) -> None:
    with ks.TestDriver(clicks, session=engine.session) as driver:
        driver.pipe(
            "clicks",
            ("a", click("alice", "/x"), 10),
            ("a", click("alice", "/health"), 20),
            ("b", click("bob", "/y"), 120),
            ks.TestRecord("c", b"no json", 121, (("trace", b"7"),)),
        )
        urls = driver.read("urls", key=ks.String(), value=ks.String())
        assert urls == [ks.TestRecord("a", "/X", 10), ks.TestRecord("b", "/Y", 120)]
        counts = {"key": ks.String(), "value": ks.Long()}
        assert driver.table("per-user", **counts) == {"alice": 2, "bob": 1}
        window = ks.tumbling("100 milliseconds")
        assert driver.read("per-window", windows=window, **counts) == [
            ks.TestRecord("alice", 2, 20, window=(0, 100))
        ]
        (letter,) = driver.read("test-dead-letters")
        assert (letter.key, letter.value) == (b"c", b"no json")
        assert dict(letter.headers)["__connect.errors.topic"] == b"clicks"

        driver.pipe("clicks", ("a", click("bob", "/z"), 300), ("a", None, 301))
        assert driver.read("urls", key=ks.String(), value=ks.String()) == [
            ks.TestRecord("a", "/Z", 300)
        ]
        assert driver.table("per-user", **counts) == {"alice": 2, "bob": 2}
        assert driver.read("per-window", windows=window, **counts) == [
            ks.TestRecord("bob", 1, 120, window=(100, 200))
        ]
        assert driver.read("urls") == []
        with pytest.raises(ks.UnknownTopicError, match=r"does not read topic other; .*: clicks"):
            driver.pipe("other", ("a", b"1"))
        with pytest.raises(ks.UnknownTopicError, match="does not write topic clicks"):
            driver.read("clicks")
        with pytest.raises(ValueError, match="7 is not a text"):
            driver.pipe("clicks", (7, None))


def test_record_that_does_not_decode_fails_the_driver(engine) -> None:
    def describe(app: ks.App) -> None:
        app.write(app.topic("in", value=ks.Long()), "out")

    with ks.TestDriver(describe, session=engine.session) as driver:
        driver.pipe("in", (None, b"123"))
        with pytest.raises(Exception, match="in-0@0"):
            driver.process()


def test_driver_refuses_to_start_the_app(engine) -> None:
    def describe(app: ks.App) -> None:
        app.write(app.topic("in"), "out")
        app.run()

    with pytest.raises(RuntimeError, match="the test driver runs the app"):
        ks.TestDriver(describe, session=engine.session)
