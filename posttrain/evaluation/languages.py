"""Language switch: whether a reply is in the language that its prompt calls for.

Always holds: a language is what pycld2 finds with confidence; a reply whose language is not known,
or that says nothing, is not in the right one.
"""

import statistics
from collections.abc import Sequence

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.replies import Row, replies
from posttrain.evaluation.suites import LanguageSwitch


def language(text: str) -> str | None:
    """ISO 639-1 code of the language of `text`; None if that cannot be told."""
    import pycld2

    readable = "".join(char for char in text if char.isprintable() or char.isspace())
    reliable, _, found = pycld2.detect(readable.encode("utf-8", "ignore"))
    code: str = found[0][1]
    return code if reliable and code != "un" else None


def evaluate(
    model: PreTrainedModel, chat: ChatFormat, suite: LanguageSwitch, rows: Sequence[Row], *,
    seed: int, keep: Keep = drop,
) -> dict[str, float]:  # fmt: skip
    """Rows have `language`, the code wanted. `unknown`: share of replies in no known language.

    Groups are the languages, and the `task` of rows that have one.
    """
    found = [language(reply.text) for reply in replies(model, chat, suite, rows, seed=seed)]
    scores = [float(code == row["language"]) for code, row in zip(found, rows, strict=True)]
    kept = by_prompt(scores, rows, _groups)
    keep(kept)
    return summary(kept) | {"unknown": statistics.fmean(code is None for code in found)}


def _groups(row: Row) -> Sequence[object]:
    return [row["language"], *([row["task"]] if "task" in row else [])]
