"""Hadoop's local file system in the driver JVM, without a process for each file.

Hadoop sets the permissions of each file and directory that it creates. Without its native library,
which PySpark lacks, it runs `chmod` for that: 2 ms of CPU. A micro-batch with state writes two
files for each partition, and four for its logs. The class below sets them with Java's library.

Spark's own compiler makes the class in the first JVM; later ones load it from the user's cache.
"""

import contextlib
import hashlib
import logging
import os
from pathlib import Path
from typing import Any, Final

logger: Final = logging.getLogger(__name__)
_PROPERTY: Final = "fs.file.impl"
_CLASS: Final = "barnabas.LocalFiles"
_SOURCE: Final = """
package barnabas;

import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws java.io.IOException {
        if (permission.getStickyBit()) {
            super.setPermission(path, permission);  // Java's library does not know this bit
        } else {
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString())
            );
        }
    }

    public void install(Configuration configuration) throws Exception {
        URI root = URI.create("file:///");
        LocalFileSystem local = new LocalFileSystem(this);
        local.initialize(root, configuration);
        Class[] types = {URI.class, Configuration.class, FileSystem.class};
        java.lang.reflect.Method add =
            FileSystem.class.getDeclaredMethod("addFileSystemForTesting", types);
        add.setAccessible(true);
        add.invoke(null, new Object[] {root, configuration, local});
    }
}
"""


def install(machine: Any, configuration: Any, cache: Path) -> None:
    """Have a JVM use this file system for `file:`, unless its user has set another.

    `machine` has the classes of the JVM, `configuration` is Hadoop's, `cache` keeps the class. A
    JVM whose Hadoop is another than that of Spark 4.0 keeps its own file system.
    """
    if configuration.get(_PROPERTY) is not None:
        return
    try:
        _loaded(machine, cache).newInstance().install(configuration)
    except Exception as error:
        logger.info("the JVM runs chmod for each file: %s", error)


def _loaded(machine: Any, cache: Path) -> Any:
    """Return the class, from the cache or from the compiler."""
    parent = machine.java.lang.Thread.currentThread().getContextClassLoader()
    root = cache / f"local-files-{hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]}"
    file = root.joinpath(*_CLASS.split(".")).with_suffix(".class")
    if file.is_file():
        places = machine.java.lang.reflect.Array.newInstance(parent.loadClass("java.net.URL"), 1)
        places[0] = machine.java.io.File(str(root)).toURI().toURL()
        return machine.java.net.URLClassLoader(places, parent).loadClass(_CLASS)
    compiler = machine.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(_SOURCE)
    with contextlib.suppress(OSError):  # a cache that this process may not write to
        _write(file, compiler.getBytecodes()[_CLASS])
    return compiler.getClassLoader().loadClass(_CLASS)


def _write(file: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(file)
