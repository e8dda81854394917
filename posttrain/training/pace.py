"""How fast a run goes: tokens a second, time left, and the share of the hardware's peak (MFU).

Nothing here enters a result or a training state: the same run on another day has another pace.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_RECENT = 20
"""Steps over which speed is averaged."""


def flops_of(config: Any, parameters: int) -> Callable[[Sequence[int]], float]:
    """FLOPs to train on documents of given lengths: 6 N a token, 12 L H Q T a token of attention.

    N counts all `parameters` but the input embedding, unless that is the output head too; L layers
    of H heads of size Q attend to T tokens. Source: Chowdhery et al. 2022 (PaLM), appendix B; T is
    the document's length, since no document sees another.
    """
    embedding = 0 if config.tie_word_embeddings else config.vocab_size * config.hidden_size
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = 12 * config.num_hidden_layers * config.num_attention_heads * size
    matrices = 6 * (parameters - embedding)

    def flops(lengths: Sequence[int]) -> float:
        return float(sum(length * (matrices + attention * length) for length in lengths))

    return flops


@dataclass
class Pace:
    """Told of each step; `flops(number)` is what step `number` takes, `peak` what all ranks can.

    Without `peak` there is no MFU: a guessed peak would be a made-up figure.
    """

    flops: Callable[[int], float] | None = None
    peak: float | None = None
    _recent: deque[tuple[float, Mapping[str, float], float]] = field(
        default_factory=lambda: deque(maxlen=_RECENT)
    )
    _before: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Steps follow: what came before is no step."""
        self._before = time.monotonic()

    def after(self, number: int, steps: int, line: Mapping[str, float]) -> dict[str, float]:
        """Figures after step `number` (from 0) of `steps`, whose metrics are `line`."""
        now = time.monotonic()
        self._recent.append((now - self._before, line, self.flops(number) if self.flops else 0.0))
        self._before = now
        seconds = max(sum(spent for spent, _, _ in self._recent), 1e-9)
        found = {
            f"{name}_per_second": sum(each[name] for _, each, _ in self._recent) / seconds
            for name in ("tokens", "targets")
            if name in line
        }
        if self.flops and self.peak:
            found["mfu"] = sum(flops for _, _, flops in self._recent) / seconds / self.peak
        return found | {"seconds_left": (steps - number - 1) * seconds / len(self._recent)}
