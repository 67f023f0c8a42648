"""JAAS lines: the cases of Kafka's JaasContextTest, and Java's StreamTokenizer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.jaas import JaasError, parse_jaas, parse_login_modules


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        (" a=b  c = d\n e=f ", {"a": "b", "c": "d", "e": "f"}),
        ('propName="prop value"', {"propName": "prop value"}),
        ("a='v1 = 1, v2 = 2;'", {"a": "v1 = 1, v2 = 2;"}),
        ('"prop name"=propValue', {"prop name": "propValue"}),
        ('option1="3"', {"option1": "3"}),
        ('user_a-b="x" user_$c="y"', {"user_a-b": "x", "user_$c": "y"}),
        (r'p="say \"hi\" \\ \t\n\101\477\8"', {"p": 'say "hi" \\ \t\nA\x277' + "8"}),
        ("p='it\"s'", {"p": 'it"s'}),
        ("a=b // the rest\n c=d", {"a": "b", "c": "d"}),
        ("a=b /* not; c=d */ e=f", {"a": "b", "e": "f"}),
        ("a=b / a single slash too\n c=d", {"a": "b", "c": "d"}),
        ("a=a3.-b", {"a": "a3.-b"}),
        ("a=größe b=日本", {"a": "größe", "b": "日本"}),
        ("a=b a=c", {"a": "c"}),
        ('a=""', {"a": ""}),
    ],
)
def test_options_are_read_as_by_java(options: str, expected: dict[str, str]) -> None:
    module = parse_jaas(f"test.Module required {options};")
    assert (module.name, module.control_flag) == ("test.Module", "required")
    assert module.options == expected


@pytest.mark.parametrize("flag", ["required", "requisite", "sufficient", "OPTIONAL", "Required"])
def test_control_flag_is_one_of_four(flag: str) -> None:
    assert parse_jaas(f"test.Module {flag} a=b;").control_flag == flag.lower()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Login module not specified in JAAS config"),
        ("  // nothing", "Login module not specified in JAAS config"),
        ("test.Module", "Login module control flag not specified in JAAS config"),
        ("  required option1=value1;", "Invalid login module control flag 'option1'"),
        ("test.Module option1=value1;", "Invalid login module control flag 'option1'"),
        ("test.Module { option1=3;", "Login module control flag is not available"),
        ("test.Module required option1;", "Value not specified for key 'option1'"),
        ("test.Module required option1=", "Value not specified for key 'option1'"),
        ("test.Module required option1=3;", "Value not specified for key 'option1'"),
        ("test.Module required option1=-x;", "Value not specified for key 'option1'"),
        ("test.Module required =x;", "Value not specified for key 'null'"),
        ("test.Module required a=b", "JAAS config entry not terminated by semi-colon"),
        ('test.Module required a="b;', "JAAS config entry not terminated by semi-colon"),
        ('test.Module required a="b\n";', "Value not specified for key ';'"),
        ("a required; b required;", "contains 2 login modules, should be 1 module"),
        ("; required;", "Login module not specified in JAAS config"),
    ],
)
def test_invalid_line_is_refused_with_kafkas_text(text: str, message: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)
    assert message in str(refused.value)


def test_login_modules_are_read_in_order() -> None:
    text = " ".join(f"test.Module{i} required index=Index{i};" for i in range(3))
    assert [(each.name, each.options) for each in parse_login_modules(text)] == [
        (f"test.Module{i}", {"index": f"Index{i}"}) for i in range(3)
    ]


def test_module_shows_no_option() -> None:
    assert "hunter2" not in repr(parse_jaas('a required password="hunter2";'))


def quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


@given(st.dictionaries(st.text(), st.text(), max_size=4))
def test_any_quoted_options_are_read_back(options: dict[str, str]) -> None:
    pairs = " ".join(f"{quoted(name)}={quoted(value)}" for name, value in options.items())
    assert parse_jaas(f"test.Module required {pairs};").options == options


@given(st.text(alphabet="ab=;\"'\\/* \n-3_.(", max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_jaas(f"a required {text};")
    except JaasError:
        return
