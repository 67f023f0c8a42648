"""docs/reference/protocol.md is what the declarations and the table of handlers say."""

from pathlib import Path

from barnabas.cli.protocol_page import page
from barnabas.protocol.apis import API
from barnabas.protocol.catalogue import messages

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"


def test_protocol_page_is_current() -> None:
    """When it fails: python -m barnabas.cli.protocol_page > docs/reference/protocol.md."""
    assert PAGE.read_text() == "\n".join(page()) + "\n"


def test_protocol_page_has_every_message_and_api() -> None:
    text = PAGE.read_text()
    assert len(messages()) == 273
    for message in messages():
        assert f"**{message.__name__}** versions" in text
    for api in API.values():
        assert f"\n### {api.name}\n" in text
