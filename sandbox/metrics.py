"""What the service counts about itself, for Prometheus; one registry per service."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sandbox.schema import Result

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


class Metrics:
    """Counters, gauges and times of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._results = Counter(
            "sandbox_submissions", "Submissions judged", ["mode", "verdict"],
            registry=self._registry,
        )  # fmt: skip
        self._tests = Counter(
            "sandbox_tests", "Tests carried out", ["verdict"], registry=self._registry
        )
        self._reruns = Counter(
            "sandbox_reruns", "Tests repeated alone, as the machine may have been slow",
            registry=self._registry,
        )  # fmt: skip
        self._lost = Counter(
            "sandbox_slots_lost", "Slots that broke", ["reason"], registry=self._registry
        )
        self._queue = Histogram(
            "sandbox_queue_seconds", "Longest wait of a submission for a slot",
            buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._wall = Histogram(
            "sandbox_test_wall_seconds", "Wall time of a test", buckets=_SECONDS,
            registry=self._registry,
        )  # fmt: skip
        self._cpu = Counter(
            "sandbox_test_cpu_seconds", "CPU time of tests", registry=self._registry
        )
        self.refused = Counter(
            "sandbox_submissions_refused", "Submissions refused as the queue was full",
            registry=self._registry,
        )  # fmt: skip
        self.held = Gauge(
            "sandbox_submissions_held", "Submissions in the service", registry=self._registry
        )

    def record(self, mode: str, result: Result) -> None:
        """Count a result with its tests."""
        self._results.labels(mode, result.verdict).inc()
        self._queue.observe(result.queue_s)
        for test in result.tests:
            self._tests.labels(test.verdict).inc()
            self._reruns.inc(test.reruns)
            self._wall.observe(test.wall_s)
            self._cpu.inc(test.cpu_s)

    def lost(self, reason: str) -> None:
        """Count a slot lost to `reason`."""
        self._lost.labels(reason).inc()

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)
