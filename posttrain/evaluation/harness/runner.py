"""The harness's process: runs one task as the job file in `argv[1]` says, and writes `argv[2]`.

It imports nothing of ours, so it may run in an environment where only the harness is installed.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def main(job_file: str, result_file: str) -> None:
    """Run the task and write version, resolved config and each document's figures."""
    job: dict[str, Any] = json.loads(Path(job_file).read_bytes())
    if (found := metadata.version("lm_eval")) != job["version"]:
        sys.exit(f"lm-evaluation-harness {found} is installed, the suite asks for {job['version']}")
    from lm_eval import simple_evaluate  # type: ignore[import-untyped,unused-ignore]
    from lm_eval.tasks import TaskManager  # type: ignore[import-untyped,unused-ignore]

    done = simple_evaluate(
        # To look through all that the harness knows takes longer than most tasks.
        task_manager=TaskManager(include_defaults=False),
        model="local-completions", model_args=job["model"], tasks=[_task(job)], batch_size=16,
        apply_chat_template=job["chat"], num_fewshot=job["fewshot"], log_samples=True,
        bootstrap_iters=0, random_seed=job["seed"], numpy_random_seed=job["seed"],
        torch_random_seed=job["seed"], fewshot_random_seed=job["seed"],
    )  # fmt: skip
    name = job["task"]["task"]
    kept = ("doc_id", "filter", "doc_hash", "prompt_hash", "target_hash")
    samples = [
        {key: sample[key] for key in kept} | {"metrics": {m: sample[m] for m in sample["metrics"]}}
        for sample in done["samples"][name]
    ]
    told = {"version": found, "config": done["configs"][name], "samples": samples}
    Path(result_file).write_text(json.dumps(told, default=str), encoding="utf-8")


def _task(job: dict[str, Any]) -> str:
    """The file of the task; a name that it includes is one of the harness's own tasks."""
    task = dict(job["task"])
    if base := task.get("include"):
        task["include"] = str(_file_of(base, job["version"]))
    path = Path(job["folder"]) / "task.yaml"
    path.write_text(json.dumps(task), encoding="utf-8")  # JSON is YAML.
    return str(path)


def _file_of(name: str, version: str) -> Path:
    """The file in which the harness defines the task `name`."""
    import lm_eval.tasks

    line = re.compile(rf"^task:\s*[\"']?{re.escape(name)}[\"']?\s*$", re.MULTILINE)
    folder = Path(lm_eval.tasks.__file__).parent
    for path in sorted(folder.rglob("*.yaml"), key=lambda path: path.stem != name):
        if line.search(path.read_text("utf-8")):
            return path
    sys.exit(f"lm-evaluation-harness {version} has no task {name[:80]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
