"""An audit: probes through a live service, and their verdicts counted."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from importlib import import_module
from multiprocessing import get_context
from random import Random
from typing import get_args

from rewards.audit.hosting import rewards_service
from rewards.audit.probe import Check, Probe, drawn
from rewards.audit.probes import MAKERS
from rewards.audit.references import NAMES, REFERENCES, opinions
from rewards.audit.report import Audited, Differential, Missed, Rate, Report
from rewards.audit.tally import finding
from rewards.client import RewardClient
from rewards.probing import refusal
from rewards.schema import Verdict
from rewards.verifiers import BUILT_IN, SELF_CONTAINED

PROBES = 400
"""Enough right and wrong items that no error among them shows a rate below 1 %."""

_BATCH = 16
_CONNECTIONS = 8
_TIMEOUT = 900.0
_COMPARED = 100
"""Probes shown to the second implementation."""

Judged = Sequence[tuple[Probe, Verdict]]


def run(
    url: str | None = None, *, verifiers: Sequence[str] = SELF_CONTAINED, probes: int = PROBES,
    seed: int = 0, sandbox: str | None = None,
) -> Report:  # fmt: skip
    """Audit `verifiers` of the service at `url`, or of one started for it.

    Draws `probes` right items, as many wrong ones, and takes the verifier's canaries. `sandbox` is
    where `code` finds one; a sandbox is started too if there is none. ValueError for a verifier
    that is not served or that we have no probes for, or if our token is refused; ConnectionError if
    `url` does not answer, HostingFault if a service does not start.
    """
    for verifier in verifiers:
        if verifier not in MAKERS:
            raise ValueError(f"no probes for {verifier!r}; there are {', '.join(MAKERS)}")
    started = rewards_service(verifiers, sandbox)
    with nullcontext(url) if url is not None else started as where:
        audited = [_audited(where, verifier, probes, seed) for verifier in verifiers]
    return Report(seed=seed, probes=probes, verifiers=audited)


def _audited(url: str, verifier: str, count: int, seed: int) -> Audited:
    digest = asyncio.run(_digest(url, verifier))
    if digest is None:
        raise ValueError(f"{url} does not serve {verifier}")
    probes = [*_canaries(verifier), *_drawn(verifier, count, seed)]
    judged = asyncio.run(_judged(url, probes))
    return Audited(
        verifier=verifier,
        digest=digest,
        false_accepts=_rate(judged, right=False),
        false_rejects=_rate(judged, right=True),
        passed=_passed(judged),
        differential=_differential(verifier, judged),
        missed=list(_missed(judged)),
    )


def _canaries(verifier: str) -> Iterator[Probe]:
    for canary in import_module(BUILT_IN[verifier]).CANARIES:
        yield Probe("conformance", canary.item.id, canary.item, canary.score == 1)


def _drawn(verifier: str, count: int, seed: int) -> Iterator[Probe]:
    makers = MAKERS[verifier]
    yield from drawn(makers.right, Random(f"{seed} right"), count)
    yield from drawn(makers.wrong, Random(f"{seed} wrong"), count)


async def _judged(url: str, probes: Sequence[Probe]) -> Judged:
    items = [
        probe.item.model_copy(update={"id": f"{number}-{probe.item.id}"})
        for number, probe in enumerate(probes)
    ]
    async with RewardClient(
        url, timeout=_TIMEOUT, patience=_TIMEOUT, batch=_BATCH, connections=_CONNECTIONS, fresh=True
    ) as client:
        return list(zip(probes, await client.score(items), strict=True))


async def _digest(url: str, verifier: str) -> str | None:
    """What the service says its version of the verifier is; None if it has none.

    ConnectionError without an answer, ValueError if our token is refused.
    """
    async with RewardClient(url) as client:
        [(status, content)] = await client.ask("/v1/verifiers")
    if status != 200:
        raise refusal(url, status, content)
    rows = content["verifiers"]
    return next((row["digest"] for row in rows if row["name"] == verifier), None)


def _rate(judged: Judged, *, right: bool) -> Rate:
    found = [finding(probe.right, verdict) for probe, verdict in judged if probe.right == right]
    unknown = found.count("fault")
    return Rate(
        wrong=len(found) - unknown - found.count("agreed"), unknown=unknown, total=len(found)
    )


def _passed(judged: Judged) -> Mapping[Check, tuple[int, int]]:
    passed: dict[Check, tuple[int, int]] = {}
    for check in get_args(Check):
        of_check = [finding(p.right, v) for p, v in judged if p.check == check]
        passed[check] = (of_check.count("agreed"), len(of_check))
    return passed


def _missed(judged: Judged) -> Iterator[Missed]:
    for probe, verdict in judged:
        if finding(probe.right, verdict) != "agreed":
            yield Missed(
                check=probe.check, rule=probe.rule, right=probe.right,
                item=probe.item.model_dump(mode="json", exclude_none=True),
                verdict=verdict.model_dump(mode="json", exclude_none=True),
            )  # fmt: skip


def _differential(verifier: str, judged: Judged) -> Differential | None:
    if verifier not in REFERENCES:
        return None
    compared = [pair for pair in judged if pair[0].check == "metamorphic"]
    compared = Random(verifier).sample(compared, min(_COMPARED, len(compared)))
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        items = [probe.item for probe, _ in compared]
        said = process.submit(opinions, verifier, items).result(_TIMEOUT)
    rows = [
        (probe.right, verdict.score == 1, opinion)
        for (probe, verdict), opinion in zip(compared, said, strict=True)
        if opinion is not None
    ]
    return Differential(
        reference=NAMES[verifier],
        compared=len(rows),
        agreed=sum(ours == theirs for _, ours, theirs in rows),
        reference_wrong=sum(ours == right != theirs for right, ours, theirs in rows),
        verifier_wrong=sum(theirs == right != ours for right, ours, theirs in rows),
    )
