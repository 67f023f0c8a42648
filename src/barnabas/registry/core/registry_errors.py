"""Errors that the registry answers, with their status and error code."""

from typing import NoReturn

from barnabas.registry.core.json_fields import LAST_NUMBER


class RegistryError(Exception):
    """A request is refused. ``status`` is the status line's, ``code`` the ``error_code``."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        # Reasons as data, for answers that carry more than a sentence.
        self.details: list[dict[str, object]] = []
        self.headers: dict[str, str] = {}


def denied(operation: str, subject: str | None) -> RegistryError:
    """Return the error for a caller that lacks a right; None is the cluster.

    It is the same for subjects that exist and for others.
    """
    place = "Cluster" if subject is None else f"Subject: {subject}"
    return RegistryError(403, 40301, f"User is denied operation {operation} on {place}")


def subject_not_found(subject: str) -> RegistryError:
    """Return the error for a subject that does not exist."""
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    """Return the error for a version that does not exist."""
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: object = None) -> RegistryError:
    """Return the error for a schema that does not exist."""
    named = "" if schema_id is None else f" {schema_id}"
    return RegistryError(404, 40403, f"Schema{named} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    """Return the error for the second soft delete of a subject."""
    return RegistryError(
        404,
        40404,
        f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    """Return the error for a permanent delete of a subject that is still in use."""
    return RegistryError(
        404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    """Return the error for the second soft delete of a version."""
    return RegistryError(
        404,
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. "
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    """Return the error for a permanent delete of a version that is still in use."""
    return RegistryError(
        404,
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being "
        "permanently deleted",
    )


def no_subject_config(subject: str) -> RegistryError:
    """Return the error for a subject that has no configuration."""
    return RegistryError(
        404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_subject_mode(subject: str) -> RegistryError:
    """Return the error for a subject that has no mode."""
    return RegistryError(
        404, 40409, f"Subject '{subject}' does not have subject-level mode configured"
    )


def incompatible(text: str, details: list[dict[str, object]]) -> RegistryError:
    """Return the error for a schema that breaks compatibility, with its reasons."""
    error = RegistryError(409, 40901, text)
    error.details = details
    return error


def invalid_schema(text: str) -> RegistryError:
    """Return the error for a schema that cannot be accepted."""
    return RegistryError(422, 42201, text)


def invalid_version(version: object) -> RegistryError:
    """Return the error for a text that does not name a version."""
    return RegistryError(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"',
    )


def invalid_compatibility_level(level: str) -> RegistryError:
    """Return the error for an unknown compatibility level."""
    return RegistryError(
        422,
        42203,
        f"Invalid compatibility level '{level}'. Valid values: NONE, BACKWARD, FORWARD, "
        "FULL, BACKWARD_TRANSITIVE, FORWARD_TRANSITIVE, and FULL_TRANSITIVE",
    )


def misnamed_compatibility_level() -> RegistryError:
    """Return the error for a level under the name that answers give it."""
    return RegistryError(
        422,
        42203,
        "Invalid compatibility level: requests name it 'compatibility', only answers name it "
        "'compatibilityLevel'",
    )


def invalid_mode(mode: str) -> RegistryError:
    """Return the error for an unknown mode, or one that does not fit the subject."""
    return RegistryError(
        422,
        42204,
        f"Invalid mode '{mode}'. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, "
        "IMPORT, and (for the whole registry) FORWARD",
    )


def operation_not_permitted(text: str) -> RegistryError:
    """Return the error for what the mode forbids."""
    return RegistryError(422, 42205, text)


def no_successor(text: str) -> RegistryError:
    """Return the error for an id or a version after which none is left."""
    return operation_not_permitted(f"{text}: the last one is {LAST_NUMBER}")


def reference_exists(text: str) -> RegistryError:
    """Return the error for deleting what other schemas refer to."""
    return RegistryError(422, 42206, text)


def invalid_subject(subject: str) -> RegistryError:
    """Return the error for a name that no subject may have."""
    return RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid subject")


def schema_too_large(text: str) -> RegistryError:
    """Return the error for a schema above the size limit."""
    return RegistryError(422, 42209, text)


def invalid_rule_set(text: str) -> RegistryError:
    """Return the error for rules that contradict themselves."""
    return RegistryError(422, 42210, f"Invalid ruleset: {text}")


def context_not_empty(context: str) -> RegistryError:
    """Return the error for deleting a context that holds schemas."""
    return RegistryError(422, 42211, f"Context '{context}' is not empty")


def refuse_body(reason: str) -> NoReturn:
    """Raises RegistryError: the body of the request is not what the endpoint takes."""
    raise RegistryError(400, 400, reason)
