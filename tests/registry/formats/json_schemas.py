"""Random JSON schemas and values, for property tests."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c", "d"])
ENUM_VALUES = st.sampled_from([1, "x", None, True, 2])
SMALL = st.integers(0, 4)


def with_some(draw: st.DrawFn, schema: dict[str, Any], **keywords: st.SearchStrategy[Any]) -> Any:
    """Return the schema with some of the keywords."""
    for keyword, values in keywords.items():
        if draw(st.integers(0, 2)) == 0:
            schema[keyword] = draw(values)
    return schema


@st.composite
def json_schemas(draw: st.DrawFn, depth: int = 3, *, is_sound: bool = False) -> Any:
    """Draw a valid schema.

    A sound one has only keywords for which a compatible verdict is a proof: the registry's rules
    look at patternProperties, dependencies and overlapping oneOf branches in part only.
    """
    kinds = ["string", "number", "integer", "boolean", "null", "enum", "any", "types"]
    kinds += ["object", "object", "array", "anyOf"] if depth else []
    kinds += [] if is_sound or not depth else ["tuple", "oneOf", "allOf", "not", "false"]
    kind = draw(st.sampled_from(kinds))
    below = json_schemas(depth - 1, is_sound=is_sound)
    if kind == "string":
        return with_some(draw, {"type": kind}, maxLength=SMALL, minLength=SMALL)
    if kind in ("number", "integer"):
        bounds = dict.fromkeys(("maximum", "minimum", "exclusiveMaximum"), SMALL)
        multiples = st.sampled_from([1, 2, 4, 0.5])
        return with_some(draw, {"type": kind}, **bounds, multipleOf=multiples)
    if kind == "object":
        return draw_object(draw, below, is_sound=is_sound)
    if kind == "array":
        bounds = dict.fromkeys(("maxItems", "minItems"), SMALL)
        return with_some(draw, {"type": kind}, items=below, uniqueItems=st.booleans(), **bounds)
    if kind == "tuple":
        schema = {"type": "array", "items": draw(st.lists(below, min_size=1, max_size=3))}
        return with_some(draw, schema, additionalItems=st.booleans() | below)
    if kind in ("anyOf", "oneOf", "allOf"):
        return {kind: draw(st.lists(below, min_size=1, max_size=3))}
    simple = {
        "enum": st.builds(
            lambda v: {"enum": v}, st.lists(st.sampled_from([1, "x", None, True, 2]))
        ),
        "any": st.sampled_from([True, {}]),
        "false": st.just(False),
        "not": st.builds(lambda schema: {"not": schema}, below),
        "types": st.builds(
            lambda types: {"type": types},
            st.lists(st.sampled_from(["string", "number", "null"]), min_size=1, unique=True),
        ),
    }
    return draw(simple.get(kind, st.just({"type": kind})))


def draw_object(draw: st.DrawFn, below: st.SearchStrategy[Any], *, is_sound: bool) -> Any:
    """Draw a schema of an object."""
    properties = draw(st.dictionaries(NAMES, below, max_size=3))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if properties:
        required = st.lists(st.sampled_from(sorted(properties)), unique=True, max_size=2)
        with_some(draw, schema, required=required)
    bounds = dict.fromkeys(("maxProperties", "minProperties"), SMALL)
    with_some(draw, schema, additionalProperties=st.booleans() | below, **bounds)
    if not is_sound:
        patterns = st.dictionaries(st.sampled_from(["^a", "b$", "c"]), below, max_size=2)
        needs = st.dictionaries(NAMES, st.lists(NAMES, unique=True), max_size=2)
        with_some(draw, schema, patternProperties=patterns, dependencies=needs)
    return schema


@st.composite
def sound_pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw two sound schemas, the second mostly derived from the first."""
    schemas = json_schemas(draw(st.integers(0, 2)), is_sound=True)
    old, other = draw(schemas), draw(schemas)
    changes = [other, {"anyOf": [other, old]}]
    if isinstance(old, dict):
        changes.append({key: old[key] for key in old if key == "type" or draw(st.booleans())})
        changes.append({**old, **other} if isinstance(other, dict) else old)
    return old, draw(st.sampled_from(changes))


SCALARS: list[Any] = [None, True, -1, 0, 1, 2, 3, 4, 5, 0.5, "", "x", "ab", "abc", "abcd", "abcdef"]

# Every scalar, and every small array and object of scalars.
JSON_VALUES: list[Any] = [
    *SCALARS,
    *([], [[]], [{}], {}, {"a": {}}, {"a": [1, 1]}, [1, 1], [1, 2, 3], [1, 2, 3, 4, 5]),
    *([scalar] for scalar in SCALARS),
    *({name: scalar} for name in "abcd" for scalar in SCALARS),
    *({"a": scalar, "b": other} for scalar in SCALARS for other in (1, "x")),
]
