"""Decontamination: rows that repeat a benchmark's prompt, by the rule in `overlap`.

Always holds: every text of a row is looked at, whoever speaks; rows go by place, so that one hit
never takes another row along; every run measures its recall on planted rows, which pass through
the very same steps, and is refused when too few of them are found.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from posttrain.data.checks.inputs import Inputs
from posttrain.data.checks.overlap import BLOCK, Prompts
from posttrain.data.checks.planting import PROMISED, Hosts, Plant, plant
from posttrain.data.checks.report import Finding, Findings, Outcome
from posttrain.data.checks.report import Parameters as Common
from posttrain.data.checks.rows import Dataset, Row, Text, texts
from posttrain.data.checks.words import Encoder
from posttrain.quantities import Share
from rewards.wilson import interval

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NEEDS = ("benchmarks", "chat")

_BATCH = 512
"""Rows that are tokenised at once."""

_PIECES = 2.0
"""Tokens of a word, on average, from which on whole words stand for tokens.

The rule's 8 tokens are those of a tokenizer that knows words; of one that spells them out they are
a word or two, which any two texts share.
"""


class Parameters(Common):
    """At most 5 % of a dataset may go; `plants` rows are planted, and of those whose finding the
    rule promises the lower bound of recall (Wilson, 95 %) must reach `least_recall`."""

    remove: tuple[Literal["contaminated"], ...] = ("contaminated",)
    most_removed: Share = 0.05
    plants: int = Field(default=200, ge=60)
    least_recall: Share = 0.9


class Prompt(NamedTuple):
    """A benchmark's prompt: where it stands, its text and tokens."""

    benchmark: str
    origin: str
    text: str
    ids: Sequence[int]


class Benchmarks:
    """The prompts of all benchmarks, and the detector over them."""

    def __init__(self, benchmarks: Iterable[Dataset], tokenizer: "PreTrainedTokenizerBase") -> None:
        asked = [prompt for each in benchmarks for prompt in _asked_of(each)]
        self.pieces = Encoder(tokenizer).pieces([text for *_, text in asked])
        self._encoder = Encoder(tokenizer, whole_words=self.pieces > _PIECES)
        self.prompts = list(self._encoded(asked))
        if not self.prompts:
            raise ValueError("no benchmark has a prompt: decontamination would remove nothing")
        self._index = Prompts([prompt.ids for prompt in self.prompts])

    def _encoded(self, asked: Sequence[tuple[str, str, str]]) -> Iterator[Prompt]:
        ids = self._encoder.encode([text for *_, text in asked])
        for (benchmark, origin, text), tokens in zip(asked, ids, strict=True):
            if not tokens:
                raise ValueError(f"{origin}: the prompt is empty")
            yield Prompt(benchmark, origin, text, tokens)

    def scan(self, rows: Iterable[Row]) -> Iterator[tuple[Row, list[Finding], str | None]]:
        """Each row with its findings, and the benchmark it repeats."""
        remaining = iter(rows)
        while batch := list(islice(remaining, _BATCH)):
            found = [(n, text) for n, row in enumerate(batch) for text in texts(row.content)]
            ids = self._encoder.encode([text.text for _, text in found])
            findings: list[list[Finding]] = [[] for _ in batch]
            benchmarks: list[str | None] = [None] * len(batch)
            for index, match in self._index.matches(ids):
                number, text = found[index]
                prompt = self.prompts[match.prompt]
                told = f"repeats {match.share:.0%} of {prompt.benchmark}, {prompt.origin}"
                findings[number].append(Finding(text.field, "contaminated", told))
                benchmarks[number] = benchmarks[number] or prompt.benchmark
            yield from zip(batch, findings, benchmarks, strict=True)


def _asked_of(benchmark: Dataset) -> Iterator[tuple[str, str, str]]:
    """Name, place and text of each prompt of a benchmark."""
    for row in benchmark.rows():
        for text in _asked(row):
            yield benchmark.name, f"{row.place}: {text.field}", text.text


def _asked(row: Row) -> list[Text]:
    """The texts of a benchmark's row that may not be in the data."""
    asked = [text for text in texts(row.content) if text.speaker in ("user", "document")]
    if not asked:
        raise ValueError(f"{row.place}: no prompt to look for; give messages, prompt or text")
    return asked


def run(inputs: Inputs, asked: Parameters) -> Outcome:
    """Find contaminated rows, then measure on planted ones how many such rows are found."""
    benchmarks = Benchmarks(inputs.benchmarks, inputs.need_chat().tokenizer)
    findings = Findings("decontamination", asked, inputs.names)
    hosts = Hosts(inputs.seed, asked.plants)
    hits: Counter[str] = Counter()
    for row, found, benchmark in benchmarks.scan(inputs.rows()):
        findings.take(row, found)
        if benchmark is None:
            hosts.offer(row)
        else:
            hits[benchmark] += 1
    planted = plant(
        inputs.seed, [(p.text, len(p.ids)) for p in benchmarks.prompts], hosts.rows, asked.plants
    )
    recall = Recall.measured(benchmarks, planted, asked)
    figures = {
        "prompts": float(len(benchmarks.prompts)),
        "tokens_a_word": benchmarks.pieces,
        "prompts.short": float(sum(len(prompt.ids) < BLOCK for prompt in benchmarks.prompts)),
        **{f"rows.{dataset.name}": float(hits[dataset.name]) for dataset in inputs.benchmarks},
        **recall.figures(),
    }
    return findings.outcome(figures, recall.refusals(asked.least_recall))


class Recall(NamedTuple):
    """How many planted rows of each kind there were, and how many were removed."""

    planted: Counter[str]
    removed: Counter[str]

    @classmethod
    def measured(
        cls, benchmarks: Benchmarks, planted: Sequence[Plant], asked: Parameters
    ) -> "Recall":
        """Filter the planted rows, each beside a clean one with the same id, and see what stays."""
        asked = asked.model_copy(update={"remove": ("contaminated",)})
        findings = Findings("decontamination", asked, ["planted"])
        rows = [row for each in planted for row in (each.host, each.row)]
        for row, found, _ in benchmarks.scan(rows):
            findings.take(row, found)
        stay = {row.place for row in findings.outcome().kept(rows)}
        assert all(each.host.place in stay for each in planted), "a clean row was removed"
        removed = Counter(each.kind for each in planted if each.row.place not in stay)
        return cls(Counter(each.kind for each in planted), removed)

    def promised(self) -> tuple[int, int]:
        """Removed and planted rows of the kinds whose finding the rule promises."""
        return sum(self.removed[kind] for kind in PROMISED), sum(
            self.planted[kind] for kind in PROMISED
        )

    def figures(self) -> dict[str, float]:
        """Recall with its interval: of what is promised, and by kind."""
        found: dict[str, float] = {}
        kinds = {kind: (self.removed[kind], count) for kind, count in self.planted.items()}
        for kind, (hits, count) in {"promised": self.promised(), **kinds}.items():
            low, high = interval(hits, count)
            found |= {
                f"recall.{kind}": hits / count if count else 0.0,
                f"recall.{kind}.low": low,
                f"recall.{kind}.high": high,
                f"recall.{kind}.planted": float(count),
            }
        return found

    def refusals(self, least: float) -> list[str]:
        """Why the result may not be used, if recall is too low."""
        hits, count = self.promised()
        low, high = interval(hits, count)
        if low >= least:
            return []
        kinds = ", ".join(f"{kind} {self.removed[kind]}/{self.planted[kind]}" for kind in PROMISED)
        return [
            f"found {hits} of {count} planted rows: recall {low:.2f} to {high:.2f}, below "
            f"{least:.2f} ({kinds}); what it let through is not known to be clean"
        ]
