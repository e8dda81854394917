"""One task of the harness against an endpoint: from rows to figures, scores and a record.

Always holds: each document has one score, in the order of the rows; a request that was not answered
ends the measurement, for its document is neither right nor wrong.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from posttrain import digest
from posttrain.evaluation.harness import runner
from posttrain.evaluation.prompts import Keep, by_prompt, drop, summary
from posttrain.evaluation.suites import Harness

Row = Mapping[str, Any]

_WITHIN = 24 * 3600.0
_ANSWERS_WITHIN = 10.0
_TASK = "suite"
_BAR = re.compile(r"\d+%\|.*it/s|\?it")
_PLACES = ("dataset_path", "dataset_name", "dataset_kwargs", "metadata")
"""Keys of a resolved config that tell where it was read from, not what it is."""


@dataclass(frozen=True)
class Endpoint:
    """A served model: the URL of its completions, and the folder of its tokenizer."""

    url: str
    model: str
    tokenizer: Path
    context: int


@dataclass(frozen=True)
class Ran:
    """What ran: the harness's version, and the digest of the task as resolved, with its prompts."""

    version: str
    task_digest: str


def measure(
    endpoint: Endpoint, suite: Harness, rows: Sequence[Row], *, seed: int,
    train: Sequence[Row] = (), keep: Keep = drop,
) -> tuple[dict[str, float], Ran]:  # fmt: skip
    """Figures and a record of `suite`; its examples (`fewshot`) come from the rows of `train`.

    `accuracy` is the mean of its metric, and `metric.NAME` of each; groups are the rows' `task`.
    RuntimeError if the endpoint is down or the harness fails, with its last line.
    """
    _reach(endpoint.url)
    with tempfile.TemporaryDirectory(prefix="harness.") as folder:
        result = _carried_out(_job(endpoint, suite, rows, train, seed, Path(folder)), Path(folder))
    found = figures(suite, rows, result, keep)
    return found, Ran(result["version"], task_digest(result))


def figures(
    suite: Harness, rows: Sequence[Row], result: Mapping[str, Any], keep: Keep
) -> dict[str, float]:
    """Figures of what the process wrote; ValueError if the suite does not fit its task."""
    taken = sorted(
        (each for each in result["samples"] if each["filter"] == suite.filter),
        key=lambda each: int(each["doc_id"]),
    )
    if [each["doc_id"] for each in taken] != list(range(len(rows))):
        raise ValueError(_no_filter(suite, result["samples"], len(rows)))
    named = {name: [each["metrics"][name] for each in taken] for name in taken[0]["metrics"]}
    numbers = {name: values for name, values in named.items() if _numeric(values)}
    if suite.metric not in numbers:
        known = ", ".join(sorted(numbers))
        raise ValueError(
            f"the task has no metric {suite.metric!r} of each document; it has {known}"
        )
    kept = by_prompt([float(value) for value in numbers[suite.metric]], rows, _groups)
    keep(kept)
    means = {f"metric.{name}": sum(values) / len(values) for name, values in numbers.items()}
    return summary(kept) | means


def _job(
    endpoint: Endpoint, suite: Harness, rows: Sequence[Row], train: Sequence[Row], seed: int,
    folder: Path,
) -> dict[str, Any]:  # fmt: skip
    if suite.fewshot and not train:
        raise ValueError(
            f"{suite.data}: fewshot {suite.fewshot} needs examples, and the data has no train split"
        )
    files = {name: folder / f"{name}.jsonl" for name in ("test", *(["train"] if train else []))}
    for name, path in files.items():
        made = rows if name == "test" else train
        path.write_text("".join(json.dumps(dict(row)) + "\n" for row in made), "utf-8")
    task = {"include": suite.task} if isinstance(suite.task, str) else dict(suite.task)
    ours = {
        "task": _TASK, "dataset_path": "json", "dataset_name": None,
        "dataset_kwargs": {"data_files": {name: str(path) for name, path in files.items()}},
        "test_split": "test", "validation_split": None,
        "training_split": "train" if train else None, "fewshot_split": "train" if train else None,
    }  # fmt: skip
    model = {
        "model": endpoint.model, "base_url": endpoint.url, "tokenizer": str(endpoint.tokenizer),
        "tokenizer_backend": "huggingface", "max_length": endpoint.context, "seed": seed,
        "max_retries": 3, "num_concurrent": 1,
    }  # fmt: skip
    return {
        "version": suite.version, "model": model, "task": task | ours, "chat": suite.chat,
        "fewshot": suite.fewshot, "seed": seed, "folder": str(folder),
    }  # fmt: skip


def _carried_out(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The result of the harness's process."""
    if find_spec("lm_eval") is None:
        raise ModuleNotFoundError(
            "suites of kind harness need lm-evaluation-harness: pip install 'posttrain[harness]'",
            name="lm_eval",
        )
    given, result = folder / "job.json", folder / "result.json"
    given.write_text(json.dumps(job), encoding="utf-8")
    offline = {
        "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_EVALUATE_OFFLINE": "1",
        "HF_DATASETS_CACHE": str(folder / "cache"), "TOKENIZERS_PARALLELISM": "false",
    }  # fmt: skip
    done = _run([sys.executable, runner.__file__, str(given), str(result)], offline, folder)
    if done.returncode or not result.is_file():
        raise RuntimeError(f"lm-evaluation-harness failed: {_reason(done.stderr)}")
    found: dict[str, Any] = json.loads(result.read_bytes())
    return found


def _run(
    line: Sequence[str], environment: Mapping[str, str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            line, env={**os.environ, **environment}, capture_output=True, text=True, cwd=folder,
            timeout=_WITHIN, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"lm-evaluation-harness did not end in {_WITHIN / 3600:g} h") from None


def _reach(url: str) -> None:
    """RuntimeError if nothing listens at `url`: the harness would tell that late and at length."""
    place = urlsplit(url)
    port = place.port or (443 if place.scheme == "https" else 80)
    try:
        socket.create_connection((str(place.hostname), port), _ANSWERS_WITHIN).close()
    except OSError as fault:
        raise RuntimeError(
            f"the endpoint {url} does not answer: {fault.strerror or fault}"
        ) from None


def _reason(printed: str) -> str:
    """The last line of what the process printed that is no progress bar."""
    lines = [line for line in printed.splitlines() if line.strip() and not _BAR.search(line)]
    return lines[-1][:500] if lines else "it ended without a message"


def task_digest(result: Mapping[str, Any]) -> str:
    """Of the task as it was resolved and the prompts it made, wherever its files lay."""
    config = {key: value for key, value in result["config"].items() if key not in _PLACES}
    hashes = [
        [each[key] for key in ("filter", "doc_hash", "prompt_hash", "target_hash")]
        for each in result["samples"]
    ]
    return digest.of_value({"config": config, "samples": hashes})


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _groups(row: Row) -> Sequence[object]:
    return [row["task"]] if isinstance(row.get("task"), str) else []


def _no_filter(suite: Harness, samples: Sequence[Mapping[str, Any]], rows: int) -> str:
    known = sorted({str(each["filter"]) for each in samples})
    if suite.filter not in known:
        return f"the task has no filter {suite.filter!r}; it has {', '.join(known)}"
    return f"the task leaves documents out: it has not one result for each of {rows} rows"
