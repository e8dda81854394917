"""Asking a checkpoint: which of the prompts it meets what is expected of.

Always holds: a prompt is met or not; what could not be judged stops the bisection, and is neither.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from posttrain.bisection.prompts import Measured, Pattern, Prompt, Verified
from posttrain.evaluation.prompts import PromptScores
from posttrain.evaluation.replies import Reply
from posttrain.evaluation.scoring import Examiner
from posttrain.store import Artifact


@dataclass(frozen=True)
class Asking:
    """How prompts are asked; `rewards` is the URL of a reward service, for verifiers.

    Prompts that are measured by a suite are asked as that suite says.
    """

    seed: int
    temperature: float
    max_new_tokens: int
    rewards: str | None


def met(checkpoint: Artifact, prompts: Sequence[Prompt], how: Asking) -> list[bool]:
    """Whether each prompt is met. RuntimeError if a reply was not judged."""
    examiner = Examiner(checkpoint, how.rewards or "", how.seed)
    found: dict[int, bool] = {}
    plain = [n for n, each in enumerate(prompts) if not isinstance(each.expect, Measured)]
    if plain:
        said = examiner.replies(how, [prompts[n].row for n in plain])
        for number, reply in zip(plain, said, strict=True):
            if isinstance(expected := prompts[number].expect, Pattern):
                found[number] = expected.holds(reply.text)
        found |= _verified(examiner, prompts, dict(zip(plain, said, strict=True)))
    found |= dict(_measured(examiner, prompts))
    return [found[number] for number in range(len(prompts))]


def check(prompts: Sequence[Prompt], how: Asking) -> None:
    """ValueError if prompts cannot be judged: a verifier needs the service, a suite two rows."""
    if how.rewards is None and any(isinstance(each.expect, Verified) for each in prompts):
        raise ValueError("prompts with a verifier need a reward service; add --rewards URL")
    for suite, numbers in _by_suite(prompts).items():
        if len(numbers) < 2:
            raise ValueError(f"suite {suite} has 1 prompt; a suite measures two or more")


def _verified(
    examiner: Examiner, prompts: Sequence[Prompt], said: dict[int, Reply]
) -> dict[int, bool]:
    asked = {n: e for n, each in enumerate(prompts) if isinstance(e := each.expect, Verified)}
    items = [
        {
            "id": str(number), "verifier": wanted.verifier, "response": said[number].text,
            "gold": wanted.gold, "parameters": dict(wanted.parameters),
        }
        for number, wanted in asked.items()
    ]  # fmt: skip
    verdicts = {each["id"]: each for each in examiner.judge(items)} if items else {}
    for each in items:
        if (verdict := verdicts.get(each["id"], {})).get("status") != "scored":
            reason = verdict.get("reason", "no verdict came back")
            raise RuntimeError(
                f"the reply to prompt {int(each['id']) + 1} was not judged: {reason}"
            )
    return {number: verdicts[str(number)]["score"] >= 1 for number in asked}


def _measured(examiner: Examiner, prompts: Sequence[Prompt]) -> Iterator[tuple[int, bool]]:
    for numbers in _by_suite(prompts).values():
        expected = prompts[numbers[0]].expect
        assert isinstance(expected, Measured)
        kept: list[PromptScores] = []
        rows = [prompts[number].row for number in numbers]
        examiner.measure_rows(expected.resolved(), rows, kept.append)
        for number, scores in zip(numbers, kept[0].attempts, strict=True):
            yield number, min(scores) >= 1


def _by_suite(prompts: Sequence[Prompt]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, each in enumerate(prompts):
        if isinstance(each.expect, Measured):
            found.setdefault(json.dumps(each.expect.suite, sort_keys=True), []).append(number)
    return found
