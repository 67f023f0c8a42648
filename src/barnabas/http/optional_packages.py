"""Third-party packages that only some installations have."""

from importlib.util import find_spec

EXTRAS = {
    "the HTTP host": ("hypercorn",),
    "the schema registry": ("h11", "hypercorn", "jsonschema", "referencing", "starlette"),
    "bearer authentication": ("joserfc",),
    "basic authentication": ("bcrypt",),
    "the pipelines' runner": ("hypercorn", "starlette", "pyspark", "pandas", "pyarrow"),
}
"""The packages that a part of the program needs. They are in the extra `registry`, or in the one
that `_OTHER_EXTRAS` names."""

_OTHER_EXTRAS = {"the pipelines' runner": "spark"}


class MissingPackageError(Exception):
    """A part of the program needs packages that are not installed: exit code 2."""


def require(part: str) -> None:
    """Raise MissingPackageError, with the command that installs them, when packages are missing."""
    missing = [name for name in EXTRAS[part] if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"{part} needs {' and '.join(missing)}: "
            f"pip install 'barnabas[{_OTHER_EXTRAS.get(part, 'registry')}]'"
        )
