"""The format of server.properties, compared with java.util.Properties."""

from pathlib import Path

import pytest

from barnabas.config import ConfigError, properties_file

CASES = [
    ("a=1", {"a": "1"}),
    ("a = 1", {"a": "1"}),
    ("a:1", {"a": "1"}),
    ("a 1", {"a": "1"}),
    ("a\t=\t1  ", {"a": "1  "}),
    ("  a=1", {"a": "1"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("a==1", {"a": "=1"}),
    ("# a=1\n! b=2\n\nc=3", {"c": "3"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=1\r\nb=2\r", {"a": "1", "b": "2"}),
    ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
    ("a=1\\\n# no comment", {"a": "1# no comment"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("a\\ b=1", {"a b": "1"}),
    ("a\\=b=1", {"a=b": "1"}),
    ("a=\\t\\n\\u00e9\\q", {"a": "\t\n\u00e9q"}),
    ("a=C:\\\\logs", {"a": "C:\\logs"}),
    ("a=1\\", {"a": "1"}),
]


@pytest.mark.parametrize(("text", "properties"), CASES)
def test_file_is_parsed_as_java_does(text: str, properties: dict[str, str]) -> None:
    assert properties_file.parse(text) == properties


def test_error_names_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.properties: No such file"):
        properties_file.read(tmp_path / "nowhere.properties")


def test_error_names_a_broken_escape(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("a=\\uZZZZ")
    with pytest.raises(ConfigError, match=r"server\.properties: .*uZZZZ is not an escape"):
        properties_file.read(file)


def test_file_that_is_not_utf_8_is_read_as_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes(b"broker.rack=\xe9")
    assert properties_file.read(file) == {"broker.rack": "\u00e9"}
