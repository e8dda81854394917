"""What a preference stage did to a checkpoint: held-out pairs before and after, and the KL.

Always holds: both checkpoints are measured on the same rows; the KL is estimated on the trained
policy's own samples, so that it is one and not an indicator.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from posttrain.data.chat import ChatFormat, Rendered
from posttrain.data.pairs import Pair, tokens
from posttrain.evaluation import preferences
from posttrain.evaluation.generation import sample
from posttrain.evaluation.measuring import read_rows
from posttrain.evaluation.suites import Preference, Suite
from posttrain.training import checkpoint

Facts = Mapping[str, Any]

_PROMPTS = 128


def compare(
    before: Path, recorded: Facts, after: Path, facts: Facts,
    suites: Mapping[str, Suite], folders: Mapping[str, Path], seed: int,
) -> dict[str, float]:  # fmt: skip
    """Of each suite `NAME.accuracy.before`, `.after`, the like for `margin`, and `NAME.kl`.

    `before` and `after` are checkpoint artifacts with their facts. ValueError if a suite is not
    one of pairs.
    """
    if not suites:
        return {}
    policies = [checkpoint.load_model(*each) for each in ((before, recorded), (after, facts))]
    chat = ChatFormat.from_tokenizer(checkpoint.load_tokenizer(before, recorded))
    found: dict[str, float] = {}
    for name, suite in suites.items():
        if not isinstance(suite, Preference):
            raise ValueError(f"suite {name} is of kind {suite.kind}; watch takes those of pairs")
        rows = read_rows(suite, folders[name])
        pairs = preferences.rendered(chat, rows, policies[0].config.max_position_embeddings)
        for when, policy in zip(("before", "after"), policies, strict=True):
            figures = preferences.figures(preferences.compare(policy, pairs), pairs, rows)
            found |= {f"{name}.{each}.{when}": figures[each] for each in ("accuracy", "margin")}
        found[f"{name}.kl"] = kl(policies[1], policies[0], pairs, chat.stop_ids, seed)
    return found


def kl(
    policy: PreTrainedModel, reference: PreTrainedModel, pairs: Sequence[Pair],
    stop_ids: Sequence[int], seed: int,
) -> float:  # fmt: skip
    """KL(policy | reference) in nats per token: the mean log-ratio of the policy's own samples.

    They answer the first prompts, each with at most as many tokens as the longest side has.
    """
    some = pairs[:_PROMPTS]
    prompts = [_prompt(pair.chosen) for pair in some]
    longest = max(tokens(side for pair in pairs for side in pair.sides))
    responses = sample(
        policy, prompts, max_new_tokens=longest, temperature=1.0, stop_ids=stop_ids, seed=seed
    )
    drawn = [
        Rendered(prompt + response, [0] * len(prompt) + [1] * len(response))
        for prompt, response in zip(prompts, responses, strict=True)
    ]
    ours, theirs = (preferences.log_probs(model, drawn) for model in (policy, reference))
    return (math.fsum(ours) - math.fsum(theirs)) / sum(tokens(drawn))


def _prompt(document: Rendered) -> list[int]:
    return document.ids[: document.mask.index(1)]
