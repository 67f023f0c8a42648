"""What to do about each rule of a JSON Schema comparison."""


def hint_for(rule: str) -> str:
    """Return a sentence that says what is wrong and what helps."""
    return rule
