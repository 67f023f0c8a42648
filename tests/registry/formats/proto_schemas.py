"""Random Protobuf schemas, and random changes of them, for property tests."""

from hypothesis import strategies as st

SCALARS = ["int32", "int64", "sint32", "string", "bytes", "bool", "double", "fixed32", "E", "N.I"]
LABELS = st.sampled_from(["", "", "optional ", "repeated "])


@st.composite
def proto_fields(draw: st.DrawFn, first: int) -> str:
    """Draw some fields with ascending numbers."""
    lines: list[str] = []
    for number in range(first, first + draw(st.integers(0, 4))):
        field_type = draw(st.sampled_from(SCALARS))
        if draw(st.integers(0, 5)) == 0:
            lines.append(f"map<string, {field_type}> f{number} = {number};")
        else:
            options = draw(st.sampled_from(["", "", " [deprecated = true]", ' [json_name="x"]']))
            lines.append(f"{draw(LABELS)}{field_type} f{number} = {number}{options};")
    return " ".join(lines)


@st.composite
def proto_schemas(draw: st.DrawFn) -> str:
    """Draw the text of a valid proto3 schema."""
    messages = [
        f"message M{index} {{ {draw(proto_fields(1))} "
        f"oneof o {{ {draw(st.sampled_from(SCALARS))} f20 = 20; }} {draw(proto_fields(30))} }}"
        for index in range(draw(st.integers(1, 3)))
    ]
    types = [*messages, "enum E { A = 0; B = 1; }", "message N { message I { int32 z = 1; } }"]
    package = draw(st.sampled_from(["", "package p;", "package p.q;"]))
    return f'syntax = "proto3"; {package} {" ".join(draw(st.permutations(types)))}'
