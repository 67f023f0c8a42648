"""The jars of Apache Kafka's Connect in the user's cache, fetched once with Spark's resolver."""

from pathlib import Path
from typing import Final

from barnabas.pipeline.spark import jar_cache
from barnabas.pipeline.spark.jar_cache import Jars

KAFKA_VERSION: Final = "4.3.0"
_PACKAGES: Final = (
    f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-mirror:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-basic-auth-extension:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)


def find_or_fetch(directory: Path) -> Jars:
    """Return the jars, fetched when the directory lacks them. Raises JarsUnavailableError."""
    target = directory / f"kafka-connect-{KAFKA_VERSION}"
    files = tuple(sorted(target.glob("*.jar")))
    return Jars(files) if files else jar_cache.fetch_into(target, _PACKAGES)
