"""The prompts of a run: what becomes of number n depends on the seed and n alone."""

from math import ceil
from random import Random

from posttrain.simulation.distributions import drawer
from posttrain.simulation.group import Group, Response
from posttrain.simulation.settings import Settings


class Prompts:
    """Issues groups in the order of their numbers."""

    def __init__(self, settings: Settings) -> None:
        seed = settings.seed
        self._size = settings.group_size
        self._tokens = drawer(settings.length_tokens, f"tokens {seed}")
        self._latency = drawer(settings.reward.latency_seconds, f"latency {seed}")
        self._equal = settings.equal_rewards
        self._fate = Random(f"rewards {seed}")

    def issue(self, number: int, version: int) -> Group:
        """Group `number`, issued at weight `version`; at least one token each."""
        group = Group(number, version, flat=self._fate.random() < self._equal)
        pairs = zip(self._tokens(self._size), self._latency(self._size), strict=True)
        group.responses = [Response(group, max(1, ceil(n)), seconds) for n, seconds in pairs]
        group.left = self._size
        return group
