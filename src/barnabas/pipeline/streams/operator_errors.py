"""Operators that cannot be applied where they are."""


class OperatorError(Exception):
    """An operator or its expression does not fit here; the message says why, or what to do."""


def check_plain_keys(operator: str, has_windows: bool) -> None:
    """Raise OperatorError for an operator that takes keys without windows only."""
    if has_windows:
        raise OperatorError(
            f"{operator} cannot take keys with windows: choose other keys before, as in "
            "to_stream().select_key('struct(key, _window.start AS start)')"
        )
