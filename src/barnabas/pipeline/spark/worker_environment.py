"""The Python packages of Spark's workers on other hosts, packed into one archive.

The archive has barnabas, what its extras `spark`, `jdbc`, `oracle` and `sqlserver` need, and the
packages that bring plug-ins, as they are installed here. PySpark is not in it: every host of a
Spark cluster has it. Python is not in it either: hosts need the same minor version and platform as
this one.

venv-pack does not do this: it packs a whole virtual environment, PySpark and tools included, and
refuses one with an editable package and a Python that is in no virtual environment.
"""

import contextlib
import hashlib
import os
import platform
import re
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final, TypeAlias

import barnabas
from barnabas.pipeline.connect.plugin_registry import ENTRY_POINT_GROUPS, SQL_FUNCTIONS

DIRECTORY: Final = "barnabas-workers"
"""Where the archive is unpacked, in the directory of each executor."""

_ROOT: Final = "barnabas"
_EXTRAS: Final = ("spark", "jdbc", "oracle", "sqlserver")
_OF_SPARK: Final = frozenset({"pyspark", "py4j"})
_REQUIREMENT: Final = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[([\w.,\s-]+)\])?")
_EXTRA_MARKER: Final = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_Requirement: TypeAlias = tuple[str, str | None]
"""The name of a package, and one of its extras."""
_UNUSED: Final = frozenset({"__pycache__", "tests", "include"})
_KEPT_S: Final = 24 * 3_600.0


def find_or_pack(cache: Path) -> Path:
    """Return the archive of what is installed now, packed when the cache lacks it."""
    packages = _packages()
    found = cache / f"workers-{_digest(packages)}.tar.gz"
    with contextlib.suppress(FileNotFoundError):
        os.utime(found)  # not `touch`, which makes an empty file when another runner removed it
        return found
    cache.mkdir(parents=True, exist_ok=True)
    _remove_old(cache)
    with tempfile.NamedTemporaryFile(dir=cache, suffix=".partial", delete=False) as partial:
        try:
            # Level 1: the packages are libraries, which a higher level hardly makes smaller.
            with tarfile.open(fileobj=partial, mode="w:gz", compresslevel=1) as archive:
                for name, path in _files(packages):
                    archive.add(path, name, recursive=False)
            Path(partial.name).replace(found)
        except BaseException:
            Path(partial.name).unlink(missing_ok=True)
            raise
    return found


def _remove_old(cache: Path) -> None:
    """Remove archives that no runner has used for a day."""
    for path in cache.glob("workers-*.tar.gz"):
        with contextlib.suppress(FileNotFoundError):  # another runner removed it
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink()


def _packages() -> dict[str, metadata.Distribution]:
    """Return the installed packages that workers need, by name, without barnabas itself."""
    found: dict[str, metadata.Distribution] = {}
    seen = set[_Requirement]()
    left: list[_Requirement] = [(_ROOT, extra) for extra in _EXTRAS]
    left += [(name, None) for name in _plugin_packages()]
    while left:
        requirement = left.pop()
        name, extra = requirement
        if requirement in seen or name in _OF_SPARK:
            continue
        seen.add(requirement)
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # it is for another platform or version
        left += _required(name, extra)
    found.pop(_ROOT, None)
    return dict(sorted(found.items()))


def _plugin_packages() -> Iterator[str]:
    for group in (*ENTRY_POINT_GROUPS, SQL_FUNCTIONS):
        for entry in metadata.entry_points(group=group):
            if entry.dist is not None:
                yield _normal(entry.dist.name)


def _required(package: str, extra: str | None) -> Iterator[_Requirement]:
    """Return the packages that a package requires, also for one of its extras."""
    for text in metadata.requires(package) or []:
        marker = _EXTRA_MARKER.search(text)
        found = _REQUIREMENT.match(text)
        if found is not None and (marker is None or marker[1] == extra):
            name = _normal(found[1])
            yield name, None
            for each in (found[2] or "").split(","):
                if each:
                    yield name, _normal(each.strip())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(packages: dict[str, metadata.Distribution]) -> Iterator[tuple[str, Path]]:
    """Return all files with their names in the archive."""
    root = Path(barnabas.__file__).parent
    for path in sorted(root.rglob("*")):
        if path.is_file() and not _is_unused(path.relative_to(root)):
            yield f"{_ROOT}/{path.relative_to(root)}", path
    for package in packages.values():
        for entry in package.files or ():
            path = Path(str(package.locate_file(entry)))
            if ".." not in entry.parts and not _is_unused(Path(entry)) and path.is_file():
                yield str(entry), path


def _is_unused(path: Path) -> bool:
    return bool(_UNUSED.intersection(path.parts)) or path.suffix == ".pyc"


def _digest(packages: dict[str, metadata.Distribution]) -> str:
    """Return a text that changes with Python, the packages, and the code of barnabas."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {platform.platform()}".encode())
    for name, package in packages.items():
        digest.update(f"{name} {package.version}\n".encode())
    for name, path in _files({}):
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
