"""All checks of one folder against the one it was made from."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from safetensors import SafetensorError
from transformers import PreTrainedModel

from posttrain.conversion.model import Effective, build
from posttrain.conversion.weights import Weights
from posttrain.equivalence import behaviour, configs, rendering, tensors
from posttrain.equivalence.changes import Changes

_SHOWN = 5
_UNREADABLE = (ValueError, OSError, KeyError, TypeError, RuntimeError, SafetensorError)
"""What a damaged folder makes its readers raise: it is then a fault of that folder."""


@dataclass(frozen=True)
class Check:
    """One check: it holds if there are no faults; `figures` say what was compared."""

    name: str
    faults: tuple[str, ...]
    figures: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.faults

    def text(self) -> str:
        """The figures, or the first faults."""
        more = f"; and {len(self.faults) - _SHOWN} more" if len(self.faults) > _SHOWN else ""
        return "; ".join(self.faults[:_SHOWN]) + more if self.faults else self.figures


def examine(
    source: Path, target: Path, changes: Changes, config: Path | None = None
) -> list[Check]:
    """Every check of `target` against `source`, both folders with weights, config and tokenizer.

    `config` is where config and tokenizer of the source are, if not beside its weights.
    """
    config = config or source
    found = [
        _check("weights", lambda: _weight_faults(source, config, target, changes)),
        _check("config", lambda: _config_faults(config, target, changes)),
        _check("tokenizer and template", lambda: rendering.tokenizer_faults(config, target)),
        _check("rendering", lambda: rendering.rendering_faults(target)),
        _check("end of sequence", lambda: rendering.end_faults(target)),
    ]
    try:
        models = build(config, Weights(source)), build(target, Weights(target))
    except _UNREADABLE as fault:
        return [*found, *(Check(name, (f"not examined: {_line(fault)}",)) for name in _LIVE)]
    return [*found, *_live(models, (config, target), changes)]


_LIVE = ("rope", "log-probabilities", "continuation")


def _live(
    models: tuple[PreTrainedModel, PreTrainedModel], folders: tuple[Path, Path], changes: Changes
) -> list[Check]:
    rows = behaviour.prompts(folders[0])
    checks = [_check("rope", lambda: behaviour.rope_faults(*models))]
    try:
        checks.append(_log_probabilities(models, rows, changes))
    except _UNREADABLE as fault:
        checks.append(Check("log-probabilities", (f"not examined: {_line(fault)}",)))
    # Rounded, or without some tokens, a model may go on otherwise where two tokens are close.
    if changes.dtype is None and changes.output_vocabulary is None:
        asked = [row[: len(row) // 2] for row in rows]
        checks.append(
            _check("continuation", lambda: behaviour.ending_faults(*models, folders, asked))
        )
    return checks


def _log_probabilities(
    models: tuple[PreTrainedModel, PreTrainedModel], rows: list[list[int]], changes: Changes
) -> Check:
    found = behaviour.divergence(*models, rows)
    told = f"KL at most {found.most:.3g} nats, mean {found.mean:.3g}, {found.positions} positions"
    faults = [] if found.most <= changes.bound else [f"{told}; bound {changes.bound:g}"]
    if changes.dtype is None and not found.equal:
        faults.append("logits are not equal bit for bit")
    return Check("log-probabilities", tuple(faults), f"{told}, {'bit-equal' * found.equal}")


def _weight_faults(source: Path, config: Path, target: Path, changes: Changes) -> Iterable[str]:
    sides = [
        Effective(Weights(weights), configs.tied(beside))
        for weights, beside in ((source, config), (target, target))
    ]
    return tensors.faults(sides[0], sides[1], changes)


def _config_faults(config: Path, target: Path, changes: Changes) -> Iterable[str]:
    return chain(configs.faults(config, target, changes), configs.manifest_faults(target))


def _check(name: str, look: Callable[[], Iterable[str]]) -> Check:
    try:
        return Check(name, tuple(look()), "equal")
    except _UNREADABLE as fault:
        return Check(name, (_line(fault),))


def _line(fault: BaseException) -> str:
    return " ".join(str(fault).split())[:400] or type(fault).__name__
