"""What may be looked at in development: not the results of suites that may not steer it."""

from collections.abc import Mapping
from typing import Any

from posttrain.store import Record


def in_sight(record: Record) -> dict[str, float]:
    """The metrics of an artifact but for those of suites that say `may_steer: false`."""
    suites: Mapping[str, Mapping[str, Any]] = record.identity.get("suites", {})
    sealed = {name for name, suite in suites.items() if not suite.get("may_steer", True)}
    return {n: v for n, v in record.metrics.items() if n.partition(".")[0] not in sealed}
