"""What the service counts about itself, for Prometheus; one registry per service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from rewards.schema import Verdict

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """Counters, gauges and times of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._verdicts = Counter(
            "rewards_verdicts", "Verdicts given",
            ["verifier", "status", "reason"], registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "rewards_check_seconds", "Time of a check in a worker, without queueing",
            ["verifier"], buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._lost = Counter(
            "rewards_workers_lost", "Workers killed or found dead", ["cause"],
            registry=self._registry,
        )  # fmt: skip
        self.refused = Counter(
            "rewards_items_refused", "Items refused because the queue was full",
            registry=self._registry,
        )  # fmt: skip
        self.waiting = Gauge("rewards_items_waiting", "Items in the queue", registry=self._registry)
        self.workers = Gauge("rewards_workers_ready", "Warm workers", registry=self._registry)

    def record(self, verdict: Verdict) -> None:
        """Count a verdict, and its time if a worker gave it."""
        unknown = verdict.reason == "unknown_verifier"  # Any text; not one time series for each.
        name = "unknown" if unknown else verdict.verifier
        self._verdicts.labels(name, verdict.status, verdict.reason or "").inc()
        if verdict.elapsed_ms:
            self._seconds.labels(verdict.verifier).observe(verdict.elapsed_ms / 1000)

    def lost(self, cause: str) -> None:
        """Count a worker that was lost to `cause`."""
        self._lost.labels(cause).inc()

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
