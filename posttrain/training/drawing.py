"""What SFT draws of its data: the examples of each source, and those of each step.

An example is one document, or with packing a bin of several; each source is packed by itself, once,
so that an epoch is every bin in a new order. All of it is fixed before the first step: a function
of data, settings and seed.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from posttrain.data import mixture
from posttrain.data.chat import Rendered
from posttrain.data.mixture import Mixture, Size, Unit
from posttrain.data.packing import PackingConfig, pack
from posttrain.training.batches import Place, shuffled
from posttrain.training.examples import dialogues, targets

Example = Sequence[Rendered]
"""The documents of one example."""

Plan = Sequence[Sequence[Place]]
"""The examples of each step."""


class Sources(NamedTuple):
    """Examples by source; `capacity` is what a bin holds, None without packing."""

    examples: Mapping[str, Sequence[Example]]
    capacity: int | None = None

    def at(self, places: Sequence[Place]) -> list[Rendered]:
        """The documents of the examples at `places`."""
        return list(chain.from_iterable(self.examples[p.source][p.row] for p in places))

    def fill(self) -> float | None:
        """The share of the bins' room that documents take; None without packing."""
        if self.capacity is None:
            return None
        bins = list(chain.from_iterable(self.examples.values()))
        return sum(map(length, bins)) / (self.capacity * len(bins))


def length(example: Example) -> int:
    """Tokens of an example."""
    return sum(len(document.ids) for document in example)


def optimised(example: Example) -> int:
    """Tokens of an example that the loss counts."""
    return sum(map(targets, example))


def read(
    data: Mapping[str, Path], tokenizer: PreTrainedTokenizerBase, context: int,
    packing: PackingConfig | None, untaught: Sequence[str] = (),
) -> Sources:  # fmt: skip
    """The examples of each file; `context` is the model's, in tokens.

    Tokens named `untaught` are no targets. A bin holds one token more than the context: the last is
    a label only. ValueError names a row that cannot be used.
    """
    if packing is None:
        rows = {name: dialogues(path, tokenizer, context, untaught) for name, path in data.items()}
        return Sources({name: [[row] for row in each] for name, each in rows.items()})
    capacity = context + 1
    longest = capacity if packing.oversize == "refuse" else None
    found = {}
    for name, path in data.items():
        fitting = chain.from_iterable(
            fit(row, capacity, packing) for row in dialogues(path, tokenizer, longest, untaught)
        )
        found[name] = packed(list(fitting), capacity, packing)
        if not found[name]:
            raise ValueError(f"{path}: no row has a target within {capacity} tokens; split them")
    return Sources(found, capacity)


def fit(document: Rendered, capacity: int, packing: PackingConfig) -> Iterator[Rendered]:
    """The documents of at most `capacity` tokens that `document` becomes, if they have targets."""
    reach = len(document.ids) if packing.oversize == "split" else 1
    for start in range(0, reach, capacity):
        cut = slice(start, start + capacity)
        mask = [0, *document.mask[cut][1:]]
        if any(mask):
            yield Rendered(document.ids[cut], mask)


def packed(
    documents: Sequence[Rendered], capacity: int, packing: PackingConfig
) -> list[list[Rendered]]:
    """The documents in bins of `capacity` tokens."""
    bins = pack([len(each.ids) for each in documents], capacity, packing.documents)
    return [[documents[index] for index in bins.bin(number)] for number in range(len(bins))]


def planned(sources: Sources, mixed: Mixture, seed: int) -> list[list[Place]]:
    """The examples of each step; fewer steps than asked for if the data is exhausted before."""
    counts = {name: _sizes(each, mixed.unit) for name, each in sources.examples.items()}
    sizes = {name: Size(len(each), sum(each)) for name, each in counts.items()}
    supply = {name: mixture.supply(part, sizes[name].rows) for name, part in mixed.parts.items()}
    for each in mixture.forecast(mixed, sizes).sources:
        print(mixture.told(each, mixed))
    places = shuffled(
        counts, mixture.shares(mixed.parts, sizes), seed,
        None if mixed.on_exhausted == "repeat" else supply,
        reweight=mixed.on_exhausted == "reweight",
    )  # fmt: skip
    steps = mixed.examples // mixed.batch
    batches = (list(islice(places, mixed.batch)) for _ in range(steps))
    return list(takewhile(lambda batch: len(batch) == mixed.batch, batches))


def _sizes(examples: Sequence[Example], unit: Unit) -> list[int]:
    return [optimised(each) if unit == "tokens" else len(each) for each in examples]


def drawn(places: Sequence[Place], sources: Sources, unit: Unit) -> dict[str, float]:
    """What each source gives to a step, in `unit`."""
    given = dict.fromkeys(sources.examples, 0.0)
    for place in places:
        example = sources.examples[place.source][place.row]
        given[place.source] += optimised(example) if unit == "tokens" else len(example)
    return given


def declared(sources: Sources, mixed: Mixture) -> tuple[dict[str, float], float]:
    """Each source's share as declared, and the largest amount of an example."""
    counts = {name: _sizes(each, mixed.unit) for name, each in sources.examples.items()}
    sizes = {name: Size(len(each), sum(each)) for name, each in counts.items()}
    return mixture.shares(mixed.parts, sizes), float(max(map(max, counts.values())))


def epochs(plan: Plan, sources: Sources) -> list[dict[str, float]]:
    """How often each source's examples were seen by the end of each step."""
    seen, found = Counter[str](), []
    for batch in plan:
        seen.update(place.source for place in batch)
        found.append(
            {
                f"epochs.{name}": seen[name] / len(examples)
                for name, examples in sources.examples.items()
            }
        )
    return found


def seen(plan: Plan, sources: Sources) -> dict[str, Any]:
    """What a run trains on: tokens read, tokens optimised, and each source's share of them."""
    tokens, counts, drawn = 0, dict.fromkeys(sources.examples, 0), Counter[str]()
    for place in chain.from_iterable(plan):
        example = sources.examples[place.source][place.row]
        tokens += length(example)
        counts[place.source] += optimised(example)
        drawn[place.source] += 1
    total = sum(counts.values())
    found = {
        "tokens": tokens,
        "optimised_tokens": total,
        "shares": {name: count / total for name, count in counts.items()},
        "epochs": {name: drawn[name] / len(each) for name, each in sources.examples.items()},
    }
    return found if (fill := sources.fill()) is None else found | {"packing_fill": fill}
