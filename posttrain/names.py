"""Names of runs, stages, data, suites and aliases: they form paths and addresses."""

import difflib
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def checked(name: str) -> str:
    """`name` itself; ValueError if it is none."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:40]!r} is no name; begin with a lower-case letter and go on with at most 39 "
            "of a-z, 0-9, _ and -"
        )
    return name


Name = Annotated[str, AfterValidator(checked)]


def nearest(given: str, known: Iterable[str]) -> str:
    """What to say to who gave an unknown name: the one known that is near, or all of them."""
    names = sorted(known)
    close = near(given, names)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"


def near(given: str, known: Iterable[str]) -> list[str]:
    """The one known name that is near `given`, if one is."""
    return difflib.get_close_matches(given, sorted(known), n=1)
