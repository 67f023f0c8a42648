"""A sentence for each rule of a JSON Schema comparison: what is wrong and what helps."""

_EXACT = {
    "TYPE_CHANGED": "the type differs: keep the type, or accept both with anyOf",
    "TYPE_NARROWED": "a number does not always fit an integer: keep number",
    "PATTERN_ADDED": "strings were not bound to a pattern before: leave it out",
    "PATTERN_CHANGED": "strings of the old pattern may not match the new one: keep the pattern",
    "UNIQUE_ITEMS_ADDED": "items could be repeated before: leave uniqueItems out",
    "ENUM_ARRAY_NARROWED": "values were removed: keep all values",
    "ENUM_ARRAY_CHANGED": "values were removed: keep all values, adding others is fine",
    "NOT_TYPE_EXTENDED": "more values are excluded than before: exclude the same or fewer",
    "SCHEMA_ADDED": "there was no such restriction before: leave it out",
    "COMBINED_TYPE_CHANGED": "the way of combining schemas differs: keep it, or change to anyOf",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": "a branch has no compatible partner: keep each branch",
    "SUM_TYPE_NARROWED": "a branch was removed: keep all branches",
    "PRODUCT_TYPE_EXTENDED": "a further schema must hold: leave it out",
    "REQUIRED_ATTRIBUTE_ADDED": "the property was optional: keep it so, or give it a default",
    "DEPENDENCY_ARRAY_ADDED": "properties were independent before: leave the dependency out",
    "DEPENDENCY_ARRAY_EXTENDED": "more properties are needed than before: need the same or fewer",
    "DEPENDENCY_ARRAY_CHANGED": "other properties are needed than before: keep the dependency",
    "DEPENDENCY_SCHEMA_ADDED": "properties were independent before: leave the dependency out",
}

# By the end of a rule's name, for rules that exist for several keywords; the first one counts.
_BY_SUFFIX = {
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": (
        "old data lacks the property: make it optional, or give it a default"
    ),
    "_ADDED_TO_OPEN_CONTENT_MODEL": (
        "old data may hold anything here: add it without a type, or close the model first"
    ),
    "_REMOVED_FROM_CLOSED_CONTENT_MODEL": "old data may hold it: keep it, or open the model",
    "_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": (
        "the schema for others does not agree with it: keep both compatible"
    ),
    "_DECREASED": "the bound is tighter than before: keep it or widen it",
    "_INCREASED": "the bound is tighter than before: keep it or widen it",
    "_EXPANDED": "fewer numbers are multiples of the new value: keep it or use a divisor",
    "_CHANGED": "numbers of the old kind do not fit the new one: keep the value",
    "_ADDED": "there was no bound before: leave it out",
    "_REMOVED": "what was not listed is refused now: allow it as before",
    "_NARROWED": "what was not listed must match a schema now: allow it as before",
}


def hint_for(rule: str) -> str:
    """Return what is wrong and what helps."""
    exact = _EXACT.get(rule)
    if exact is not None:
        return exact
    return next(hint for suffix, hint in _BY_SUFFIX.items() if rule.endswith(suffix))
