"""Names of runs, stages, data, suites and aliases: they form paths and addresses."""

import re
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
