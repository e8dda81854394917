"""Identity: whether a model, asked who it is, takes itself for another provider's.

Always holds: a reply that says nothing claims nothing, and is not right either; the lists of names
are part of this code, so a gate's figures change only with it.
"""

import statistics
from collections.abc import Sequence

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.providers import names_own, others_named
from posttrain.evaluation.replies import Row, replies
from posttrain.evaluation.suites import Identity


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: Identity, rows: Sequence[Row], *,
    seed: int, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """`named_other` and `named_own` are shares of replies; `other.PROVIDER` that of each named.

    Groups are the rows' `language` and `task`, where they have them.
    """
    texts = [reply.text for reply in replies(model, chat, suite, rows, seed=seed)]
    asked = [row["messages"][-1]["content"] for row in rows]
    found = [others_named(*each, suite.own) for each in zip(texts, asked, strict=True)]
    scores = [float(bool(t.strip()) and not f) for t, f in zip(texts, found, strict=True)]
    kept = by_prompt(scores, rows, _groups)
    keep(kept)
    mean = statistics.fmean
    providers = sorted({name for names in found for name in names})
    return summary(kept) | {
        "named_other": mean(bool(names) for names in found),
        "named_own": mean(names_own(text, suite.own) for text in texts),
        **{f"other.{each}": mean(each in names for names in found) for each in providers},
    }


def _groups(row: Row) -> Sequence[object]:
    return [row[name] for name in ("language", "task") if name in row]
