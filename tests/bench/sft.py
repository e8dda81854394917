"""SFT throughput against TRL's trainer and a loop by hand: same data, threads and steps, one run.

`python -m tests.bench.sft` prints the table and writes it into docs/benchmarks.md. Exit code 1 if
a bar is missed. TRL gets an environment of its own, made once in the user's cache folder.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from textwrap import fill
from typing import Any

from posttrain.data.packing import pack
from tests.bench.figures import Row, Spread, measured, table
from tests.bench.page import write_section
from tests.bench.sft_models import MODELS
from tests.bench.sft_rounds import Spec

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/benchmarks.md"
CAPACITY, DOCUMENTS, MOST = 1024, 4000, 64
ROUNDS = 3
PEERS = ("trl==1.16.0", "transformers==5.10.4", "datasets==5.2.0", "accelerate==1.15.0")
LOAD = {"tiny": (4, 10, 1), "135m": (1, 1, 2)}
"""Bins a step, steps a round, threads."""


def documents(vocabulary: int) -> list[dict[str, list[int]]]:
    """Of many lengths, most about 100 tokens, some ten times that; a half to all are targets."""
    draw, found = Random(1), []
    for _ in range(DOCUMENTS):
        length = min(CAPACITY, max(8, int(draw.lognormvariate(4.6, 0.8))))
        prompt = draw.randint(length // 4, 3 * length // 4)
        ids = [1, *(draw.randrange(20, vocabulary) for _ in range(length - 1))]
        found.append({"ids": ids, "mask": [0] * prompt + [1] * (length - prompt)})
    return found


def bins(found: list[dict[str, list[int]]]) -> list[list[dict[str, list[int]]]]:
    """The documents packed, in no order."""
    packing = pack([len(each["ids"]) for each in found], CAPACITY, MOST)
    order = list(range(len(packing)))
    Random(0).shuffle(order)
    return [[found[index] for index in packing.bin(number)] for number in order]


def prepared(name: str, folder: Path) -> tuple[Spec, float]:
    """What the trainers of model `name` are given, and the share of the bins that stays empty."""
    model = MODELS[name]()
    model.save_pretrained(folder / name)
    packed = bins(documents(model.config.vocab_size))
    filled = sum(len(each["ids"]) for one in packed for each in one)
    batch, steps, threads = LOAD[name]
    spec = Spec(str(folder / name), packed[: batch * steps], CAPACITY, batch, steps, threads, 1e-4)
    (folder / f"{name}.json").write_text(json.dumps(spec._asdict()))
    return spec, 1 - filled / (len(packed) * CAPACITY)


class Trainer:
    """A trainer's process; a round begins when it is told to."""

    def __init__(self, python: Path, module: str, spec: Path, threads: int) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [python, "-m", f"tests.bench.{module}", spec], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(spec.parent / module).open("a"),
        )  # fmt: skip
        self._log = spec.parent / module

    def round(self) -> Mapping[str, float]:
        """Seconds, CPU seconds and first loss of a round, and the growth of memory in kB."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("round "):
                found: dict[str, float] = json.loads(line.removeprefix("round "))
                return found
        raise RuntimeError(f"a trainer ended early: {self._log.read_text()[-2000:]}")

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def trainers(
    modules: Mapping[str, Path], spec: Path, threads: int
) -> Iterator[dict[str, list[Mapping[str, float]]]]:
    """Rounds of each module, interleaved, after one that is not counted."""
    with ExitStack() as stack:
        running = {}
        for module, python in modules.items():
            running[module] = Trainer(python, module, spec, threads)
            stack.callback(running[module].end)
        found: dict[str, list[Mapping[str, float]]] = {name: [] for name in running}
        for number in range(ROUNDS + 1):
            for name, trainer in running.items():
                told = trainer.round()
                if number:
                    found[name].append(told)
        yield found


def peers() -> Path:
    """The Python that has TRL and torch of this version; made if it is not there."""
    import torch

    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "posttrain"
    folder = cache / f"bench-{PEERS[0].replace('==', '-')}"
    python, made = folder / "bin/python", folder / ".made"
    if not made.exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"torch=={torch.__version__}"]
        subprocess.run([*install, *PEERS], check=True, timeout=1800)
        made.touch()
    return python


def compared(name: str, folder: Path, others: Mapping[str, Path]) -> list[Row]:
    """The rows of one model; `others` are the peers' modules with their Python."""
    spec, waste = prepared(name, folder)
    modules = {"sft_ours": Path(sys.executable), **others}
    with trainers(modules, folder / f"{name}.json", spec.threads) as found:
        pass
    rates = {
        module: Spread([spec.tokens / each["seconds"] for each in rounds])
        for module, rounds in found.items()
    }
    losses = {module: rounds[0]["loss"] for module, rounds in found.items() if rounds[0]["loss"]}
    if max(losses.values()) - min(losses.values()) > 1e-3:
        raise RuntimeError(f"the trainers do not compute the same: {losses}")
    return _rows(name, rates, found, waste)


BARS = {
    ("tiny", "sft_bare"): ">= 0.8", ("tiny", "sft_trl"): ">= 1.3", ("135m", "sft_bare"): ">= 0.95",
}  # fmt: skip
TOLD = {"sft_ours": "here", "sft_bare": "a loop by hand", "sft_trl": "TRL's SFTTrainer, packing"}


def _rows(
    name: str, rates: Mapping[str, Spread], found: Mapping[str, list[Any]], waste: float
) -> list[Row]:
    rows = [measured(f"{name}: tokens/s, {TOLD[each]}", rate) for each, rate in rates.items()]
    ours = found["sft_ours"]
    for each in rates:
        if bar := BARS.get((name, each)):
            told = f"{name}: here, of {TOLD[each]}"
            rows.append(measured(told, rates["sft_ours"] / rates[each], bar))
            cpu = Spread(
                [their["cpu"] / our["cpu"] for our, their in zip(ours, found[each], strict=True)]
            )
            rows.append(measured(f"{name}: the same by CPU time", cpu))
    growth = Spread([ours[-1]["growth"] / found["sft_bare"][-1]["growth"]])
    rows.append(measured(f"{name}: growth of memory, of the loop's", growth, "<= 1.2"))
    return [*rows, measured(f"{name}: room left in bins, %", Spread([100 * waste]), "<= 0.5")]


def page(rows: list[Row], seconds: float) -> str:
    """The section of docs/benchmarks.md."""
    today = datetime.now(UTC)
    told = (
        f"`make bench-sft`, {today.day} {today:%B %Y}, {os.cpu_count()} cores "
        f"({platform.machine()}), Python {platform.python_version()}, {seconds:.0f} s. Medians of "
        f"{ROUNDS} interleaved rounds with their range, after one to warm up; ratios are taken "
        f"round by round. Bins of {CAPACITY} tokens; a step is 4 bins on one thread for the tiny "
        "Apertus (0.6 M parameters, 10 steps a round), 1 bin on two threads for the Llama of 135 M "
        "(1 step a round); AdamW, fp32. Memory: the highest point above what the imports took. The "
        "loop by hand is torch and transformers, which makes its mask of the positions."
    )
    return f"{fill(told, 100)}\n\n{table(rows)}"


def main() -> int:
    """Run all, or the models named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", default=list(LOAD))
    chosen = parser.parse_args().models
    started, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            others = {"sft_bare": Path(sys.executable)}
            if (name, "sft_trl") in BARS:
                others["sft_trl"] = peers()
            rows += compared(name, Path(folder), others)
    text = page(rows, time.monotonic() - started)
    print(text)
    if set(chosen) == set(LOAD):
        write_section(PAGE, "bench-sft", text)
    return 0 if all(row.reached for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
