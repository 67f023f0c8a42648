"""`ssl.principal.mapping.rules`; the cases are those of Kafka's SslPrincipalMapperTest."""

import pytest

from barnabas.security.principal_mapping import NoRuleMatchesError, PrincipalMapping

RULES = ", ".join([
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    "DEFAULT",
])  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_first_rule_that_matches_decides(name: str, expected: str) -> None:
    assert PrincipalMapping(RULES).name(name) == expected


@pytest.mark.parametrize("rules", ["DEFAULT", "", " DEFAULT "])
def test_default_keeps_the_name(rules: str) -> None:
    assert PrincipalMapping(rules).name("CN=a,O=b") == "CN=a,O=b"


def test_comma_and_escaped_slash_in_a_rule() -> None:
    mapping = PrincipalMapping(r"RULE:CN=(\w+),O=a\/b/$1\/x/,RULE:.*/other/")
    assert mapping.name("CN=k,O=a/b") == "k/x"
    assert mapping.name("CN=k,O=a") == "other"


def test_reference_to_a_missing_group_stays() -> None:
    assert PrincipalMapping("RULE:CN=(.*)/$1$2/").name("CN=a") == "a$2"


def test_name_without_a_rule_is_refused() -> None:
    with pytest.raises(NoRuleMatchesError, match="No rules apply to CN=a"):
        PrincipalMapping("RULE:^O=.*$/x/").name("CN=a")


@pytest.mark.parametrize(
    "rules", ["default", "RULE:", "RULE:a/b", "RULE:a/b/X", "DEFAULT,nonsense", "RULE:^a"]
)
def test_malformed_rule_raises(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalMapping(rules)


def test_pattern_that_re2_cannot_use_raises() -> None:
    with pytest.raises(ValueError, match="RE2 has no such expression"):
        PrincipalMapping("RULE:(?=a).*/x/")
