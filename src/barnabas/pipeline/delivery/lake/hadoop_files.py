"""Files of all file systems that Spark knows, as the driver sees them: local paths, HDFS, S3."""

from typing import Any

from barnabas.pipeline.delivery.driver import spark_internals
from barnabas.pipeline.delivery.driver.spark_library import SparkSession


class HadoopFiles:
    """Reads and writes small files through Spark's Hadoop libraries."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm: Any = spark_internals.jvm(session)
        self._conf: Any = spark_internals.hadoop_configuration(session)

    def exists(self, name: str) -> bool:
        """True when there is a file or a directory of this name."""
        path, files = self._opened(name)
        return bool(files.exists(path))

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, none when it does not exist."""
        path, files = self._opened(directory)
        if not files.exists(path):
            return []
        return [str(entry.getPath().getName()) for entry in files.listStatus(path)]

    def newest(self, directory: str) -> int:
        """Return the largest number in a directory of Spark's logs, -1 without one."""
        numbers = (name.removesuffix(".compact") for name in self.names(directory))
        return max((int(number) for number in numbers if number.isdecimal()), default=-1)

    def read(self, file: str) -> str | None:
        """Return the text of a file, None when it does not exist."""
        path, files = self._opened(file)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            content = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return str(content)
        finally:
            stream.close()

    def write(self, file: str, text: str) -> None:
        """Write a text to a file, which appears whole or not at all."""
        path, files = self._opened(file)
        scratch = self._jvm.org.apache.hadoop.fs.Path(f"{file}.new")
        files.mkdirs(path.getParent())
        stream = files.create(scratch, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if files.exists(path):  # HDFS does not rename to a file that exists
            files.delete(path, False)
        files.rename(scratch, path)

    def _opened(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(name)
        return path, path.getFileSystem(self._conf)
