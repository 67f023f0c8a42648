"""`sasl.kerberos.principal.to.local.rules`: random rules and principals, beside Kafka's own class.

A rule that refers to a missing part or group is refused by ours at the start. Kafka accepts it, and
refuses the principals that the rule applies to.
"""

import random

import pytest

from barnabas.security.kerberos_names import KerberosShortNames, NoShortNameError
from compat_tests import jars

pytestmark = [jars.needed, pytest.mark.barnabas_only]

CASES = 4000
BAD_REFERENCE = "a reference to a missing part or group"
_BAD = ("names a part outside of", "is not a group of the pattern")
_FORMATS = ["$1", "$0", "$1.$2@$0", "x$2", "$1$1", "a", "$3", "$", "", "$1@$0", "$2-$1"]
_MATCHES = ["", "(.*)", "(a.*)", "([ab]+)", "(.*@R)", "(a|b)", "()", "(", "(a*", "([)", "(^a$)"]
_PATTERNS = ["a", ".", "a*", "^a", "b$", "[ab]", "", "(a", "@.*", "[^@]*", "x?", "a|b", "(a)(b)?"]
_REPLACEMENTS = [
    "",
    "c",
    "$0",
    "<$0>",
    "$1",
    "$2",
    "$10",
    "$01",
    "\\$",
    "\\\\",
    "\\a",
    "$",
    "\\",
    "$a",
]
_ENDS = ["", "/L", "", "/L", "/U", "L", "U", "/", "", "", "/X", "x"]
_NAMES = ["a", "b", "ab", "aXb", "", "a.b", "ß"]
_REALMS = ["R", "S", "", "a"]


def rule(chance: random.Random) -> str:
    if chance.random() < 0.2:
        return chance.choice(["DEFAULT", "DEFAULT", "default", "DEFAULT/L", ""])
    text = f"RULE:[{chance.choice(['0', '3', '', '-1', *'12121212121212'])}:"
    text += chance.choice([*_FORMATS, *["$1"] * 10]) + "]"
    text += chance.choice([*_MATCHES, *[""] * 10])
    if chance.random() < 0.5:
        text += f"s/{chance.choice(_PATTERNS)}/{chance.choice(_REPLACEMENTS)}/"
        text += chance.choice(["", "g"])
    return text + chance.choice(_ENDS)


def principal(chance: random.Random) -> str:
    text = chance.choice(_NAMES)
    text += "".join(
        f"/{chance.choice(_NAMES)}" for _ in range(chance.choice([0, 0, 0, 1, 1, 1, 2]))
    )
    return text + (f"@{chance.choice(_REALMS)}" if chance.random() < 0.9 else "")


def outcome(name: str, rules: list[str]) -> str:
    try:
        names = KerberosShortNames(rules, "R")
    except ValueError as error:
        return BAD_REFERENCE if any(each in str(error) for each in _BAD) else "invalid rules"
    try:
        return f"name {names.short_name(name)}"
    except NoShortNameError:
        return "no name"


def test_short_names_are_those_of_kafkas_class() -> None:
    chance = random.Random(1)
    cases = [
        (principal(chance), [rule(chance) for _ in range(chance.choice([1, 1, 2]))])
        for _ in range(CASES)
    ]
    lines = "".join("\t".join([name, *rules]) + "\n" for name, rules in cases)
    program = jars.ROOT / "compat_tests" / "java" / "ShortNames.java"
    done = jars.java("-Dfile.encoding=UTF-8", str(program), stdin=lines)
    expected = done.stdout.splitlines()
    found = [outcome(*case) for case in cases]
    different = [
        f"{case}: {ours}, Kafka: {theirs}"
        for case, ours, theirs in zip(cases, found, expected, strict=True)
        if ours not in (theirs, BAD_REFERENCE)
    ]
    assert different == []
    assert sum(each.startswith("name ") for each in found) > CASES / 10
