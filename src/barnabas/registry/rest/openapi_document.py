"""The OpenAPI document, generated from the route table."""

from typing import Any

from barnabas import __version__
from barnabas.registry.rest.registry_routes import Parameter, RestRoute

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_TEXT_MAP = {"type": "object", "additionalProperties": _TEXT}
_FLAG = {"type": "boolean"}
_INTEGER = {"type": "integer", "format": "int32"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list_of(name: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(name)}


_SCHEMAS: dict[str, Any] = {
    "Error": {
        **_object(error_code=_INTEGER, message=_TEXT, details=_list_of("Incompatibility")),
        "required": ["error_code", "message"],
    },
    "Incompatibility": _object(rule=_TEXT, path=_TEXT, old={}, new={}, hint=_TEXT),
    "Reference": _object(name=_TEXT, subject=_TEXT, version=_INTEGER),
    "Metadata": _object(
        tags={"type": "object", "additionalProperties": _TEXTS},
        properties=_TEXT_MAP,
        sensitive=_TEXTS,
    ),
    "Rule": _object(
        name=_TEXT,
        doc=_TEXT,
        kind=_TEXT,
        mode=_TEXT,
        type=_TEXT,
        tags=_TEXTS,
        params=_TEXT_MAP,
        expr=_TEXT,
        onSuccess=_TEXT,
        onFailure=_TEXT,
        disabled=_FLAG,
    ),
    "RuleSet": _object(
        migrationRules=_list_of("Rule"),
        domainRules=_list_of("Rule"),
        encodingRules=_list_of("Rule"),
        enableAt=_TEXT,
    ),
    "SchemaTags": _object(schemaEntity=_object(entityPath=_TEXT, entityType=_TEXT), tags=_TEXTS),
    "SchemaRequest": _object(
        schema=_TEXT,
        schemaType=_TEXT,
        references=_list_of("Reference"),
        metadata=_ref("Metadata"),
        ruleSet=_ref("RuleSet"),
        id=_INTEGER,
        version=_INTEGER,
        schemaTagsToAdd=_list_of("SchemaTags"),
        schemaTagsToRemove=_list_of("SchemaTags"),
    ),
    "TagRequest": _object(
        tagsToAdd=_list_of("SchemaTags"),
        tagsToRemove=_list_of("SchemaTags"),
        metadata=_ref("Metadata"),
        ruleSet=_ref("RuleSet"),
        rulesToMerge=_ref("RuleSet"),
        rulesToRemove=_TEXTS,
        newVersion=_INTEGER,
    ),
    "ConfigRequest": _object(
        compatibility=_TEXT,
        compatibilityPolicy=_TEXT,
        compatibilityGroup=_TEXT,
        alias=_TEXT,
        normalize=_FLAG,
        validateFields=_FLAG,
        validateNewSchemas=_FLAG,
        validateRules=_FLAG,
        defaultMetadata=_ref("Metadata"),
        overrideMetadata=_ref("Metadata"),
        defaultRuleSet=_ref("RuleSet"),
        overrideRuleSet=_ref("RuleSet"),
    ),
    "ModeRequest": _object(mode=_TEXT),
}


def openapi_document(routes: list[RestRoute]) -> dict[str, Any]:
    """Return the document of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "barnabas schema registry", "version": __version__},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _operation(route: RestRoute) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": [_place(segment) for segment in route.segments if segment[0] == "{"]
        + [_query(parameter) for parameter in route.parameters],
        "responses": _responses(route),
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": _ref(route.body)}}}
    return operation


def _operation_id(route: RestRoute) -> str:
    words = [segment.strip("{}").replace(":", "_") for segment in route.segments]
    return "_".join((route.method.lower(), *words))


def _place(segment: str) -> dict[str, Any]:
    return {"name": segment.strip("{}"), "in": "path", "required": True, "schema": _TEXT}


def _query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "schema": {"type": parameter.type},
    }


def _responses(route: RestRoute) -> dict[str, Any]:
    by_status: dict[str, list[str]] = {}
    for code in route.errors:
        by_status.setdefault(str(code)[:3], []).append(str(code))
    error = {"content": {"application/json": {"schema": _ref("Error")}}}
    answers: dict[str, Any] = {"200": {"description": "Done"}}
    for status, codes in sorted(by_status.items()):
        answers[status] = {"description": f"error_code {', '.join(codes)}", **error}
    return answers
