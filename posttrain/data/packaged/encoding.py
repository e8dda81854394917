"""Python values as JSON without loss: tuples, and keys that are no text, are told by a wrapper.

`rewards.verifiers.reasoning.restored` reads them: the reward service imports nothing of ours.
"""

from typing import Any

_WRAPPERS = ({"tuple"}, {"pairs"})


def encoded(value: Any) -> Any:
    """ValueError for a value that neither JSON nor the wrappers can hold."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, tuple):
        return {"tuple": [encoded(each) for each in value]}
    if isinstance(value, list):
        return [encoded(each) for each in value]
    if not isinstance(value, dict):
        raise ValueError(f"a {type(value).__name__} cannot be written down: {str(value)[:60]}")
    if all(isinstance(key, str) for key in value) and set(value) not in _WRAPPERS:
        return {key: encoded(each) for key, each in value.items()}
    return {"pairs": [[encoded(key), encoded(each)] for key, each in value.items()]}
