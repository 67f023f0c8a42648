"""Third-party packages that only some installations have."""

from importlib.util import find_spec

EXTRAS = {
    "the HTTP host": ("hypercorn",),
    "the schema registry": ("h11", "hypercorn", "jsonschema", "referencing", "starlette"),
    "bearer authentication": ("joserfc",),
    "basic authentication": ("bcrypt",),
}
"""The packages that a part of the program needs. All are in the extra `registry`."""


class MissingPackageError(Exception):
    """A part of the program needs packages that are not installed: exit code 2."""


def require(part: str) -> None:
    """Raise MissingPackageError, with the command that installs them, when packages are missing."""
    missing = [name for name in EXTRAS[part] if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"{part} needs {' and '.join(missing)}: pip install 'barnabas[registry]'"
        )
