"""Work that was begun is continued only by the same plan."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from posttrain import digest
from posttrain.store import write_durably


def same_plan(path: Path, plan: Mapping[str, Any], *, begun: bool) -> None:
    """Keep `plan` at `path`; where work has `begun`, compare it with what is kept there.

    ValueError shows what differs.
    """
    told = json.loads(json.dumps(plan, default=_plain, sort_keys=True))
    if not (begun and path.is_file()):
        write_durably(path, json.dumps(told, indent=1))
        return
    kept = json.loads(path.read_text(encoding="utf-8"))
    if differences := list(_differences("", kept, told)):
        before, now = (digest.of_value(each)[:12] for each in (kept, told))
        raise ValueError(
            f"the work in {path.parent} is of another plan ({before}, now {now}): "
            f"{'; '.join(differences)}; undo the change or remove the work"
        )


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json")


def _differences(where: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _differences(f"{where}.{name}".strip("."), old.get(name), new.get(name))
    elif old != new:
        yield f"{where} was {json.dumps(old)}, is {json.dumps(new)}"
