"""Deciding configurations and modes of subjects, contexts and the registry.

``None`` as subject is the registry's own setting.
"""

from typing import Any

import attrs

from barnabas.registry.core.compatibility_check import DEFAULT_LEVEL
from barnabas.registry.core.json_fields import JsonFields
from barnabas.registry.core.registry_errors import (
    invalid_compatibility_level,
    invalid_mode,
    invalid_rule_set,
    invalid_subject,
    misnamed_compatibility_level,
    no_subject_config,
    no_subject_mode,
    operation_not_permitted,
    subject_not_found,
)
from barnabas.registry.core.registry_state import RegistryState, tombstone
from barnabas.registry.core.schema_requests import Decision
from barnabas.registry.core.subject_names import SubjectName, is_valid_subject
from barnabas.registry.core.topic_records import (
    LEVELS,
    MODES,
    POLICIES,
    ConfigKey,
    ModeKey,
    SubjectConfig,
    TopicRecord,
    config_from_json,
)

# Fields of a request to set a configuration, by the property that each sets.
CONFIG_FIELDS = {
    "alias": "alias",
    "aliasForDeks": "alias_for_deks",
    "normalize": "normalize",
    "validateFields": "validate_fields",
    "validateNewSchemas": "validate_new_schemas",
    "validateRules": "validate_rules",
    "compatibility": "compatibility_level",
    "compatibilityPolicy": "compatibility_policy",
    "compatibilityGroup": "compatibility_group",
    "defaultMetadata": "default_metadata",
    "overrideMetadata": "override_metadata",
    "defaultRuleSet": "default_rule_set",
    "overrideRuleSet": "override_rule_set",
}


def config_answer(config: SubjectConfig) -> dict[str, Any]:
    """Return how a configuration is shown; one without a level has the default level."""
    level = config.compatibility_level or DEFAULT_LEVEL
    return attrs.evolve(config, compatibility_level=level).to_json()


def get_config(
    state: RegistryState, subject: str | None, *, default_to_global: bool
) -> dict[str, Any]:
    """Return the configuration of a subject, or the one that holds for it."""
    if subject is None or default_to_global:
        return config_answer(state.config_in_scope(subject))
    config = state.configs.get(subject)
    if config is None:
        raise no_subject_config(subject)
    return config_answer(config)


def set_config(state: RegistryState, subject: str | None, fields: JsonFields) -> Decision:
    """Decide a change: a field that is absent keeps its value, null clears it."""
    _check_subject(subject)
    level = fields.text("compatibility")
    if level is None and fields.raw("compatibilityLevel") is not None:
        raise misnamed_compatibility_level()
    if level is not None and level.upper() not in LEVELS:
        raise invalid_compatibility_level(level)
    _check_writable(state, subject)
    given = config_from_json(fields, "compatibility")
    config = state.configs.get(subject) or SubjectConfig()
    changes = {
        name: getattr(given, name)
        for field, name in CONFIG_FIELDS.items()
        if fields.has(field) and not _is_unknown_policy(field, fields)
    }
    config = attrs.evolve(config, **changes)
    for rule_set in (config.default_rule_set, config.override_rule_set):
        fault = None if rule_set is None else rule_set.fault()
        if fault is not None:
            raise invalid_rule_set(fault)
    record = TopicRecord(ConfigKey(subject), config)
    return Decision((record,), config.to_json("compatibility"))


def _is_unknown_policy(field: str, fields: JsonFields) -> bool:
    policy = fields.text(field) if field == "compatibilityPolicy" else None
    return policy is not None and policy.upper() not in POLICIES


def delete_config(state: RegistryState, subject: str | None) -> Decision:
    """Decide to drop a configuration; the answer is what it was."""
    _check_writable(state, subject)
    config = state.configs.get(subject)
    if config is None:
        if subject is not None:
            raise subject_not_found(subject)
        return Decision((), config_answer(SubjectConfig()))
    return Decision((tombstone(ConfigKey(subject)),), config_answer(config))


def get_mode(
    state: RegistryState, subject: str | None, *, default_to_global: bool
) -> dict[str, Any]:
    """Return the mode of a subject, or the one that holds for it."""
    if subject is None or default_to_global:
        return {"mode": state.mode_in_scope(subject)}
    mode = state.modes.get(subject)
    if mode is None:
        raise no_subject_mode(subject)
    return {"mode": mode}


def set_mode(
    state: RegistryState, subject: str | None, fields: JsonFields, *, force: bool
) -> Decision:
    """Decide a change of mode. Importing starts on an empty subject, or by force."""
    _check_subject(subject)
    sent = fields.text("mode")
    mode = (sent or "").upper()
    if mode not in MODES or (mode == "FORWARD" and subject is not None):
        raise invalid_mode(sent or "")
    if mode == "IMPORT" and not force and _holds_schemas(state, subject):
        raise operation_not_permitted("Cannot import since found existing subjects")
    return Decision((TopicRecord(ModeKey(subject), mode),), {"mode": sent})


def _holds_schemas(state: RegistryState, subject: str | None) -> bool:
    if state.modes.get(subject) == "IMPORT":
        return False
    if subject is None:
        return bool(state.subjects)
    name = SubjectName.parse(subject)
    if name.is_context:
        return any(SubjectName.parse(each).context == name.context for each in state.subjects)
    return subject in state.subjects


def delete_mode(state: RegistryState, subject: str | None, *, recursive: bool) -> Decision:
    """Decide to drop a mode, of a context's subjects too when recursive."""
    mode = state.modes.get(subject)
    below = _modes_below(state, subject) if recursive else []
    if mode is None and not below:
        if subject is not None:
            raise subject_not_found(subject)
        return Decision((), {"mode": state.mode_in_scope(None)})
    ended = [subject] if mode is not None else []
    records = tuple(tombstone(ModeKey(each)) for each in (*ended, *below))
    return Decision(records, {"mode": mode or state.mode_in_scope(subject)})


def _modes_below(state: RegistryState, subject: str | None) -> list[str | None]:
    scope = SubjectName.parse(subject or "")
    if scope.name:
        return []
    return sorted(
        (
            each
            for each in state.modes
            if each is not None
            and each != subject
            and (subject is None or SubjectName.parse(each).context == scope.context)
        ),
        key=str,
    )


def _check_subject(subject: str | None) -> None:
    if subject is not None and not is_valid_subject(subject, for_settings=True):
        raise invalid_subject(subject)


def _check_writable(state: RegistryState, subject: str | None) -> None:
    if state.mode_in_scope(subject).startswith("READONLY"):
        named = "The registry" if subject is None else f"Subject {subject}"
        raise operation_not_permitted(f"{named} is in read-only mode")
