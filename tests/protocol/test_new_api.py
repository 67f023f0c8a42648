"""docs/adding-an-api.md is true: its declarations work as written, and mistakes raise errors."""

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol import apis, reference
from barnabas.protocol.errors import EncodingError
from barnabas.protocol.fields import array, string
from barnabas.protocol.messages_base import Message, Struct

PAGE = (Path(__file__).parents[2] / "docs" / "adding-an-api.md").read_text()


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    """Return the declarations of the page's second block; the first has the row of the api."""
    row, block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:2]
    (api,) = eval(row, vars(apis))
    namespace: dict[str, Any] = {"__name__": "greet"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(apis._BY_NAME, api.name, api)
        exec(compile(block, "greet.py", "exec", dont_inherit=True), namespace)
    return namespace


def test_example_messages_of_the_page_round_trip(declared: dict[str, Any]) -> None:
    kind = declared["GreetRequest"]
    value = kind(group_id="g", people=[kind.Person(name="K.")])
    for version in (0, 1):
        data = value.encode(version)
        assert kind.decode(data, version) == value == reference.decode(kind, version, data)
        assert reference.encode(value, version) == data
    titled = kind(people=[kind.Person(name="K.", title="Surveyor")])
    assert kind.decode(titled.encode(0), 0).people[0].title is None
    assert kind.decode(titled.encode(1), 1) == titled
    with pytest.raises(EncodingError, match=r"version 0 has no field GreetResponse\.count"):
        declared["GreetResponse"](count=1).encode(0)


def test_example_bytes_of_the_page_are_its_message(declared: dict[str, Any]) -> None:
    shown = re.search(r"--message GreetRequest:1 ([0-9a-f]+)", PAGE)
    assert shown is not None
    assert declared["GreetRequest"](group_id="g").encode(1).hex() == shown[1]


def test_array_of_an_unknown_struct_raises_type_error() -> None:
    class Misspelt(Message, versions="0"):
        class Person(Struct):
            name: str = string()

        people: list["Misspelt.Person"] = array("Persn")

    with pytest.raises(TypeError, match=r"Misspelt\.people: unknown struct 'Persn'"):
        Misspelt().encode(0)
