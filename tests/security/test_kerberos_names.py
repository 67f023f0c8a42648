"""`sasl.kerberos.principal.to.local.rules`; some cases are those of Kafka's KerberosNameTest.

compat_tests/test_kerberos_names.py compares the rules with Kafka's own class.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.kerberos_names import KerberosShortNames, NoShortNameError

REALM = "REALM.COM"
RULES = [
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    "RULE:[2:$1](App.*)s/App(.*)/$1/g/L",
    "RULE:[2:$1@$0](.*@OTHER.COM)s/(.*)@.*/x$1/U",
    "DEFAULT",
]


def short(principal: str, *rules: str) -> str:
    return KerberosShortNames(rules or ("DEFAULT",), REALM).short_name(principal)


@pytest.mark.parametrize(
    ("principal", "expected"),
    [
        ("App.service-name/example.com@REALM.COM", ".service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("AppName/example.com@REALM.COM", "name"),
        ("user/host@OTHER.COM", "XUSER"),
        ("user/host@REALM.COM", "user"),
        ("user@REALM.COM", "user"),
        ("simple", "simple"),
    ],
)
def test_first_rule_that_applies_decides(principal: str, expected: str) -> None:
    assert short(principal, *RULES) == expected


def test_principal_without_a_rule_has_no_name() -> None:
    with pytest.raises(NoShortNameError, match=r"No rules apply to a@OTHER.COM, rules DEFAULT; "):
        short("a@OTHER.COM")
    with pytest.raises(NoShortNameError, match="realm \\(none\\) only"):
        KerberosShortNames(("DEFAULT",), "").short_name("a@OTHER.COM")
    with pytest.raises(NoShortNameError, match="Malformed Kerberos name: a/b/c@"):
        short("a/b/c@R")
    with pytest.raises(NoShortNameError, match="Non-simple name a@REALM"):
        short("a@REALM.COM", "RULE:[1:$1@$0]")


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("default", "Invalid rule: default"),
        ("DEFAULT/L", "unmatched substring: `/L`"),
        ("RULE:[1:$1", "Invalid rule"),
        ("RULE:[:$1]", "number of parts"),
        ("RULE:[1:$1]/X", "unmatched substring: `X`"),
        ("RULE:[1:$2]", r"\$2 names a part outside of"),
        ("RULE:[1:$]", r"\$ names a part outside of"),
        ("RULE:[1:$1]((a)", "RE2 has no such"),
        ("RULE:[1:$1](?=a)", "unmatched|RE2"),
        ("RULE:[1:$1]s/(a)/$2/", r"\$2 in the replacement is not a group"),
        ("RULE:[1:$1]s/a/$/", r"\$ in the replacement is not a group"),
        ("RULE:[1:$1]s/a/b\\/", "unmatched|is not a group"),
    ],
)
def test_rule_that_cannot_work_is_refused(rule: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        KerberosShortNames((rule,), REALM)


def test_replacement_is_javas() -> None:
    assert short("abab@R", r"RULE:[1:$1]s/(a)(b)/$2\$1$10/g") == "b$1a0b$1a0"
    assert short("abab@R", "RULE:[1:$1]s/x*/-/g") == "-a-b-a-b-"
    assert short("abab@R", "RULE:[1:$1]s/b/-/") == "a-ab"


PARTS = st.text("abX.", min_size=1, max_size=5)
PATTERNS = st.sampled_from(["a", "[aX]", "a*", "(a)(b)?", "^a", ".$", "(.)(.*)", "b|X", ""])
REPLACEMENTS = st.sampled_from(["", "c", "$0", "<$0>", "\\$", "a.b"])


@given(
    st.sampled_from([1, 2]),
    st.sampled_from(["$1", "$1.$0", "x$1$1", "$0"]),
    st.none() | PATTERNS,
    st.none() | st.tuples(PATTERNS, REPLACEMENTS, st.booleans()),
    st.sampled_from(["", "L", "U"]),
    PARTS,
    st.none() | PARTS,
    PARTS,
)
def test_rules_equal_a_plain_reference(
    count: int,
    form: str,
    match: str | None,
    change: tuple[str, str, bool] | None,
    case: str,
    service: str,
    host: str | None,
    realm: str,
) -> None:
    rule = f"RULE:[{count}:{form}]" + (f"({match})" if match and ")" not in match else "")
    if change:
        rule += f"s/{change[0]}/{change[1]}/{'g' if change[2] else ''}"
    rule += f"/{case}" if case else ""
    principal = f"{service}@{realm}" if host is None else f"{service}/{host}@{realm}"
    base = form.replace("$0", realm).replace("$1", service)
    expected: str | None = base
    is_refused = match and ")" not in match and re.fullmatch(match, base) is None
    if (host is None) != (count == 1) or is_refused:
        expected = None
    elif change:
        text = change[1].replace("\\$", "DOLLAR").replace("$0", "\\g<0>").replace("DOLLAR", "$")
        expected = re.sub(change[0], text, base, count=0 if change[2] else 1)
    if expected is not None and case:
        expected = expected.lower() if case == "L" else expected.upper()
    try:
        found: str | None = short(principal, rule)
    except NoShortNameError:
        found = None
    assert found == expected
