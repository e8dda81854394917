"""What the service counts about itself, for Prometheus; one registry per service.

Counting is a few additions, since it happens for every item; Prometheus' own types are made from
that when it asks. Names and labels are in docs/rewards.md.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from rewards.schema import Verdict

UNKNOWN = "unknown_verifier"
"""The reason where a verifier is not served, whose name may be any text: not one label each."""

_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Times:
    """Durations in seconds, sorted into buckets, by verifier."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, verifier: str, seconds: float, count: int = 1) -> None:
        """Count a duration, of `count` items."""
        counts = self._counts.get(verifier)
        if counts is None:
            counts = self._counts[verifier] = [0] * (len(_BOUNDS) + 1)
            self._sums[verifier] = 0.0
        counts[bisect_left(_BOUNDS, seconds)] += count
        self._sums[verifier] += seconds * count

    def family(self, name: str, text: str) -> Metric:
        """All of it as a histogram."""
        family = HistogramMetricFamily(name, text, labels=["verifier"])
        for verifier, counts in self._counts.items():
            edges = [*map(str, _BOUNDS), "+Inf"]
            totals = [sum(counts[: at + 1]) for at in range(len(counts))]
            family.add_metric([verifier], list(zip(edges, totals, strict=True)),
                              self._sums[verifier])  # fmt: skip
        return family


class Metrics(Collector):
    """Counters, gauges and times of one service.

    Times: `queue` from arrival to the start of the check, `check` of the check itself, `total` from
    arrival to the verdict. `gauges` are asked for their value when it is wanted.
    """

    def __init__(self) -> None:
        self.queue, self.check, self.total = Times(), Times(), Times()
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._verdicts: Counter[tuple[str, ...]] = Counter()
        self._restarts: Counter[tuple[str, ...]] = Counter()
        self._hits: Counter[tuple[str, ...]] = Counter()
        self._joined: Counter[tuple[str, ...]] = Counter()
        self._refused: Counter[tuple[str, ...]] = Counter()
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def told(self, verdicts: Sequence[Verdict], took: float) -> None:
        """Count the verdicts of a request, which took so many seconds."""
        counts: dict[tuple[str, str, str], int] = {}
        for verdict in verdicts:
            label = _label(verdict)
            counts[label] = counts.get(label, 0) + 1
        for label, count in counts.items():
            self._verdicts[label] += count
            self.total.add(label[0], took, count)

    def restarted(self, cause: str) -> None:
        """Count a worker that is replaced because of `cause`."""
        self._restarts[(cause,)] += 1

    def hit(self, verifier: str) -> None:
        """Count a verdict that was remembered."""
        self._hits[(verifier,)] += 1

    def joined(self, verifier: str) -> None:
        """Count an item that waits for an equal one under check."""
        self._joined[(verifier,)] += 1

    def refused(self, items: int) -> None:
        """Count items that found the queue full."""
        self._refused[()] += items

    def request(self, status: int) -> None:
        """Count a request to score by the HTTP status of its reply."""
        self._requests[(str(status),)] += 1

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """As Prometheus' types."""
        yield _counter("rewards_verdicts", "Verdicts given", self._verdicts,
                       ["verifier", "status", "reason"])  # fmt: skip
        yield _counter("rewards_worker_restarts", "Workers replaced", self._restarts, ["cause"])
        yield _counter("rewards_cache_hits", "Verdicts remembered", self._hits, ["verifier"])
        yield _counter("rewards_items_joined", "Items that waited for an equal one under check",
                       self._joined, ["verifier"])  # fmt: skip
        yield _counter("rewards_items_refused", "Items that found the queue full", self._refused)
        yield _counter("rewards_requests", "Requests to score", self._requests, ["status"])
        yield self.queue.family("rewards_queue_seconds", "From arrival to the start of the check")
        yield self.check.family("rewards_check_seconds", "Time of a check, without queueing")
        yield self.total.family("rewards_total_seconds", "From arrival to the verdict")
        for name, (text, value) in self.gauges.items():
            yield GaugeMetricFamily(name, text, value())


def _counter(
    name: str, text: str, counts: Mapping[tuple[str, ...], int], labels: Sequence[str] = ()
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _label(verdict: Verdict) -> tuple[str, str, str]:
    reason = verdict.reason or ""
    return ("unknown" if reason == UNKNOWN else verdict.verifier, verdict.status, reason)
