"""The directory in which a session keeps the files that users add to it.

Spark 4.0.0 makes it in the working directory, as `artifacts`, and removes it when the JVM ends: a
JVM that is killed leaves it there. No property changes that (SPARK-52396), so the value is set
before the session reads it.
"""

import contextlib
from pathlib import Path
from typing import Any, Final

_MANAGER: Final = "org.apache.spark.sql.artifact.ArtifactManager$"
_ROOT: Final = "artifactRootDirectory"
_IS_SET: Final = "bitmap$0"


def place_below(jvm: Any, directory: Path) -> None:
    """Have the sessions of a JVM keep their files below a directory; Spark removes them."""
    with contextlib.suppress(Exception):  # a version of Spark without these fields has no need
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        manager = loader.loadClass(_MANAGER)
        fields = [manager.getDeclaredField(name) for name in (_ROOT, _IS_SET)]
        root = jvm.org.apache.spark.util.Utils.createTempDir(str(directory), "artifacts").toPath()
        for field, value in zip(fields, (root, True), strict=True):
            field.setAccessible(True)
            field.set(None, value)
