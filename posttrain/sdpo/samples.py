"""Responses with what came of them: what is distilled, and why the rest is left out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, cast

from posttrain.data.chat import ChatFormat, Conversation, Rendered
from posttrain.judging.opinions import Opinion
from posttrain.objectives.config import SDPOConfig
from posttrain.sdpo.config import RepromptConfig
from posttrain.sdpo.reprompt import demonstrated, demonstrator, own_tokens, reprompt

Outcome = Literal[
    "taught", "anchored", "content", "alone", "unjudged", "silent", "overlong", "unrenderable",
    "wordless",
]  # fmt: skip
"""`anchored`: it was not judged; the model is to stay as it is there. `content`: it succeeded, and
there is nothing to tell. `alone`: it did not, and nobody in its group did. The others, but
`taught`, are faults: no verdict; a verdict that says nothing; a prompt of the teacher's that is too
long, or spells control tokens; a response without a token of its own.
"""

TRAINED: Sequence[Outcome] = ("taught", "anchored")
FAULTS: Sequence[Outcome] = ("unjudged", "silent", "overlong", "unrenderable", "wordless")


@dataclass(frozen=True)
class Sample:
    """A response to prompt `row`, and what was found; `told` is the teacher's last message.

    `old` are the log-probabilities of the response's own tokens under the policy that sampled.
    """

    row: int
    response: list[int]
    opinion: Opinion
    outcome: Outcome
    told: str | None = None
    demonstrated: bool = False
    old: list[float] | None = None

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """What `as_json` gave."""
        return replace(cls(**values), opinion=Opinion(**values["opinion"]))


@dataclass(frozen=True)
class Span:
    """A response after the student's and after the teacher's prompt; both have its targets."""

    student: Rendered
    teacher: Rendered
    old: list[float] | None

    @property
    def targets(self) -> int:
        """Tokens that the loss counts."""
        return sum(self.student.mask)


def samples(
    chat: ChatFormat, prompts: Mapping[int, Mapping[str, Any]], drawn: Sequence[int], group: int,
    responses: Sequence[list[int]], opinions: Sequence[Opinion], config: RepromptConfig,
) -> list[Sample]:  # fmt: skip
    """A sample for each response; those to one draw of a prompt, `group` of them, are adjacent."""
    found = []
    for start in range(0, len(responses), group):
        row = drawn[start // group]
        members = range(start, start + group)
        scores = [opinions[index].score for index in members]
        for index in members:
            shown = demonstrator(index - start, scores, config)
            example = "" if shown is None else _shown(chat, responses[start + shown], config)
            answered = Sample(row, responses[index], opinions[index], "taught")
            found.append(_judged(chat, prompts[row], answered, example, config))
    return found


def _shown(chat: ChatFormat, response: list[int], config: RepromptConfig) -> str:
    return demonstrated(chat.parse(response), thinking=config.demonstration_thinking)


def _judged(
    chat: ChatFormat, prompt: Mapping[str, Any], sample: Sample, example: str,
    config: RepromptConfig,
) -> Sample:  # fmt: skip
    """`sample` with its outcome and, if there is something to tell, the teacher's last message."""
    if (score := sample.opinion.score) is None:
        return replace(sample, outcome="unjudged")
    if not any(own_tokens(chat, sample.response)):
        return replace(sample, outcome="wordless")
    told = reprompt(prompt, sample.opinion.feedback, example, config)
    if told is None:
        return replace(sample, outcome=_untold(score, config))
    outcome = _readable(chat, told, config.length)
    message = told["messages"][-1]["content"]
    return replace(sample, outcome=outcome, told=message, demonstrated=bool(example))


def _readable(chat: ChatFormat, told: Conversation, longest: int) -> Outcome:
    try:
        length = len(chat.render(told, add_generation_prompt=True).ids)
    except ValueError:
        return "unrenderable"
    return "overlong" if length > longest else "taught"


def _untold(score: float, config: RepromptConfig) -> Outcome:
    if score >= config.success:
        return "content"
    return "alone" if config.feedback == "never" else "silent"


def span(chat: ChatFormat, prompt: Mapping[str, Any], sample: Sample) -> Span:
    """The span of a sample that is taught or anchored; an anchor's prompt is told as it is."""
    assert sample.outcome in TRAINED
    told = {"role": "user", "content": sample.told}
    anchored = sample.outcome == "anchored"
    teaching = prompt if anchored else {**prompt, "messages": [*prompt["messages"][:-1], told]}
    student, teacher = (_answered(chat, each, sample.response) for each in (prompt, teaching))
    return Span(student, teacher, sample.old)


def _answered(chat: ChatFormat, prompt: Mapping[str, Any], response: list[int]) -> Rendered:
    ids = chat.render(cast(Conversation, prompt), add_generation_prompt=True).ids
    return Rendered(ids + response, [0] * len(ids) + own_tokens(chat, response))


def needs_old(objective: SDPOConfig, updates: int) -> bool:
    """Whether the loss weighs by importance: not where the policy is the one that sampled."""
    return updates > 1 and objective.is_clip is not None


def figures(found: Sequence[Sample], group: int, config: RepromptConfig) -> dict[str, float]:
    """Shares of a step's samples: of each outcome, and the reference's metrics (facts.md 1.4)."""
    count = len(found)
    outcomes = Counter(sample.outcome for sample in found)
    scores = [sample.opinion.score for sample in found if sample.opinion.score is not None]
    good = [(each.opinion.score or 0.0) >= config.success for each in found]
    groups = [any(good[start : start + group]) for start in range(0, count, group)]
    told = [sample for sample in found if sample.outcome == "taught"]
    articles = Counter(sample.opinion.article for sample in told)
    return {
        "score": sum(scores) / max(len(scores), 1),
        **{name: outcomes[name] / count for name in ("taught", "content", "alone", *FAULTS)},
        "success_samples": sum(good) / count,
        "success_groups": sum(groups) / len(groups),
        "feedback_available": sum(bool(each.opinion.feedback) for each in found) / count,
        "demonstrated": sum(each.demonstrated for each in told) / count,
        **{f"article.{name}": float(times) for name, times in articles.items() if name},
    }


def check(found: Sequence[Sample], most: float, step: int) -> None:
    """RuntimeError if more than the share `most` was lost to faults."""
    lost = [sample for sample in found if sample.outcome in FAULTS]
    if len(lost) <= most * len(found):
        return
    counts = Counter(sample.outcome for sample in lost)
    told = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    why = next((sample.opinion.fault for sample in lost if sample.opinion.fault), "")
    raise RuntimeError(
        f"step {step}: {len(lost)} of {len(found)} responses cannot be taught ({told}); "
        f"limits.untaught is {most:.0%}. {f'The judge: {why}. ' if why else ''}"
        "Nothing was trained on them; mend this and run the same command to go on"
    )
