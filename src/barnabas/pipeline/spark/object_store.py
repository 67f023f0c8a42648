"""Access to an object store for Python: the variables that say what Spark's S3A properties say.

Spark writes a checkpoint at `s3a://` by Hadoop's S3A. The runner and the tasks read it by Arrow,
which has its endpoint and its credentials from the variables of Amazon's tools.
"""

from collections.abc import Mapping
from typing import Final

_PREFIX: Final = "spark.hadoop.fs.s3a."
_ENDPOINT: Final = "AWS_ENDPOINT_URL"
_NAMES: Final = {
    "endpoint": _ENDPOINT,
    "endpoint.region": "AWS_DEFAULT_REGION",
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}


def variables(spark: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for the properties of a session that are set."""
    given = {variable: spark.get(f"{_PREFIX}{name}", "") for name, variable in _NAMES.items()}
    found = {variable: text for variable, text in given.items() if text}
    if _ENDPOINT in found and "://" not in found[_ENDPOINT]:
        is_plain = spark.get(f"{_PREFIX}connection.ssl.enabled", "true").lower() == "false"
        found[_ENDPOINT] = f"{'http' if is_plain else 'https'}://{found[_ENDPOINT]}"
    return found
