"""Access of Python to an object store, by the properties of S3A."""

from pathlib import Path

import pytest

from barnabas.pipeline.spark import class_archive, object_store, session
from barnabas.pipeline.spark.jar_cache import Jars
from barnabas.pipeline.spark.session import SessionSettings

S3A = "spark.hadoop.fs.s3a."


def test_properties_that_are_set_become_variables() -> None:
    given = {f"{S3A}endpoint": "http://store:9000", f"{S3A}access.key": "user", "spark.ui": "x"}
    expected = {"AWS_ENDPOINT_URL": "http://store:9000", "AWS_ACCESS_KEY_ID": "user"}
    assert object_store.variables(given) == expected
    assert object_store.variables({"spark.ui": "x"}) == {}


@pytest.mark.parametrize(("ssl", "scheme"), [("true", "https"), ("false", "http")])
def test_endpoint_without_a_scheme_has_that_of_the_connection(ssl: str, scheme: str) -> None:
    given = {f"{S3A}endpoint": "store:9000", f"{S3A}connection.ssl.enabled": ssl}
    assert object_store.variables(given) == {"AWS_ENDPOINT_URL": f"{scheme}://store:9000"}


def test_executors_of_a_cluster_get_the_variables() -> None:
    properties = {f"{S3A}secret.key": "hidden", f"{S3A}endpoint.region": "eu-west-1"}
    settings = SessionSettings(Path("/w"), "spark://h:7077", "s3a://b/c", properties=properties)
    found = session.spark_properties(settings, Jars(()), class_archive.Choice(()), Path("/w.tar"))
    assert found["spark.executorEnv.AWS_SECRET_ACCESS_KEY"] == "hidden"
    assert found["spark.executorEnv.AWS_DEFAULT_REGION"] == "eu-west-1"
