"""The table of planted mistakes fits the source, so that `make security-mistakes` can run."""

import pytest

from tests.security.security_mistakes import MISTAKES, ROOT, Mistake, source


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.what)
def test_mistake_can_be_planted(mistake: Mistake) -> None:
    assert mistake.planted(source(mistake).read_text()) != source(mistake).read_text()
    for each in mistake.tests:
        assert (ROOT / each.partition("::")[0]).exists(), each


def test_mistake_whose_text_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match="has its text 0 times"):
        MISTAKES[0].planted("nothing of it")
