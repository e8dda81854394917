"""Wrong input, damaged files and refused promotions: one line and the right exit code."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from posttrain.gates import Finding
from posttrain.journal import Journal
from posttrain.plan import resolve
from posttrain.recipe import load
from posttrain.registry import Registry
from posttrain.reports import describe
from posttrain.store import Store
from tests.core.runs import SMALL, ended, posttrain, write

MEASURED = (
    SMALL
    + """\
  base:
    kind: pretrain
    model: {architecture: apertus, hidden: 8, layers: 1, heads: 1, feed_forward: 8, vocabulary: 600}
    data: corpus
    tokenizer: tokens
    steps: 1
    optimizer: {adamw: {lr: 1e-3}}
  scores: {kind: evaluate, of: [base], measure: [chains]}
services: {rewards: {verifiers: [answer]}}
suites: {chains: {kind: continuation, data: corpus.holdout}}
promote: {checkpoint: base, to: candidate, gates: [{suite: chains, at_least: 50%}]}
"""
)


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of the folder in which the small recipe was run."""
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def refused(folder: Path, *arguments: str) -> str:
    """The one line with which a command refuses wrong input."""
    done = ended(folder, *arguments)
    assert done.code == 2, done
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    return done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "none.yaml"], "none.yaml: cannot be read"),
        (["plan", "."], ".: cannot be read (Is a directory)"),
        (["plan"], "Missing argument 'RECIPE'."),
        (["pln"], "No such command 'pln'."),
        (["status", "--bogus"], "No such option: --bogus"),
        (["show", "small/tokens@9"], "no artifact small/tokens@9"),
        (["show", "../runs@1"], "'../runs@1' is no artifact address"),
        (["show", "small/tokens"], "'small/tokens' is no artifact address"),
        (["promote", "small/tokens@1", "--to", "candidate"], "no `promote` block"),
        (["promote", "small/tokens@1", "--to", "Candi date"], "'Candi date' is no name"),
        (["promote", "other/sft@1", "--to", "candidate"], "there are: none of run other"),
        (["rollback", "candidate"], "no earlier checkpoint"),
        (["rollback", "../x"], "'../x' is no name"),
        (["status", "other"], "'other' has not been started"),
        (["status", "../small"], "'../small' is no name"),
        (["logs", "tokenz"], "no log tokenz.log"),
        (["logs", "../plan"], "'' is no name"),
    ],
)
def test_wrong_input_is_one_line(finished: Path, arguments: list[str], message: str) -> None:
    assert message in refused(finished, *arguments)


@pytest.mark.parametrize("module", ["ray", "ruamel.yaml"])
def test_a_module_of_an_extra_that_is_missing_is_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    def run(*_: object) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("posttrain.cli.load", run)
    told = refused(tmp_path, "run", str(write(tmp_path, SMALL)))
    assert "this command needs the CPU environment: run `make install`" in told
    assert f"no module {module} here" in told


def test_a_module_of_ours_that_is_missing_is_a_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "posttrain.running", None)
    done = ended(tmp_path, "run", str(write(tmp_path, SMALL)))
    assert done.code == 4
    assert done.err.startswith("error: internal error: ModuleNotFoundError: ")


def test_without_ray_a_run_says_how_to_get_it(tmp_path: Path) -> None:
    program = (
        "import sys\nsys.modules['ray'] = None\nsys.argv = ['posttrain', 'run', 'r.yaml']\n"
        "from posttrain.cli import main\nmain()"
    )
    write(tmp_path, SMALL)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert done.returncode == 2
    assert "run `make install` (there is no module ray here)" in done.stderr


def test_an_unknown_stage_to_stop_after_is_one_line(finished: Path) -> None:
    for name in ("token", ""):
        assert f"no stage {name!r}" in refused(
            finished, "run", str(finished / "r.yaml"), "--until", name
        )


def test_several_faults_of_a_recipe_are_several_lines(tmp_path: Path) -> None:
    wrong = SMALL.replace("vocabulary: 600", "vocab: 1").replace("backend: cpu", "backend: tpu")
    done = ended(tmp_path, "plan", str(write(tmp_path, wrong)))
    assert done.code == 2
    assert re.findall(r"r.yaml:(\d+): ", done.err) == ["3", "11"]


def test_without_any_command_the_help_is_shown(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "posttrain"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Usage" in done.stdout + done.stderr


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    for folder in (tmp_path, tmp_path / "store"):
        assert "store is no folder" in refused(folder, "status")


def test_commands_that_read_leave_no_trace(tmp_path: Path) -> None:
    recipe = str(write(tmp_path, SMALL))
    for arguments in (["plan", recipe], ["status"], ["checkpoints"], ["rollback", "a"]):
        ended(tmp_path, *arguments)
    refused(tmp_path, "status", "other")
    assert not list(tmp_path.glob("store/[!r]*"))


@pytest.fixture
def read_only(copied: Path) -> Iterator[Path]:
    """A folder whose store lies on a file system that cannot be written."""
    place = str(copied / "store")
    for options in (["--bind"], ["-o", "remount,ro,bind"]):
        mount = ["mount", *options, place, place]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("mounting a file system needs root")
    yield copied
    subprocess.run(["umount", place], check=True)


def test_a_read_only_store_can_be_read_and_refuses_the_rest(read_only: Path) -> None:
    assert "small: finished" in ended(read_only, "status").out
    assert ended(read_only, "show", "small/tokens@1").code == 0
    other = posttrain(read_only, "run", str(read_only / "r.yaml"), "--set", "seed=2")
    assert other.returncode == 2
    assert other.stderr.endswith("cannot be used: Read-only file system (E204)\n")


JUNK = [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a": 1}\n', b'{"stages": [1], "promote": 3}']


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("runs/small/plan.json", [["status"], ["promote", "small/tokens@1", "--to", "a"]]),
        ("artifacts/small/tokens/1/record.json", [["status"], ["show", "small/tokens@1"]]),
        ("artifacts/small/tokens/1/record.json", [["plan", "recipes/smoke.yaml"], ["checkpoints"]]),
    ],
)
def test_a_damaged_file_is_named(copied: Path, name: str, commands: list[list[str]]) -> None:
    for junk in JUNK:
        (copied / "store" / name).write_bytes(junk)
        for command in commands:
            line = refused(copied, *command)
            assert "damaged" in line
            assert name.removesuffix("/record.json") in line


@pytest.mark.parametrize("junk", JUNK)
def test_events_and_leases_that_cannot_be_read_do_not_stand_in_the_way(
    copied: Path, junk: bytes
) -> None:
    for name in ("events.jsonl", "lease.json", "progress/tokens.jsonl"):
        (copied / "store/runs/small" / name).write_bytes(junk)
    assert "small: finished" in ended(copied, "status").out


def test_a_history_of_anything_but_events_is_refused(copied: Path) -> None:
    history = copied / "store/registry/history"
    history.mkdir(parents=True)
    (history / ".event.abc").write_text('{"event": "promote", "alias": "a", ')  # Cut by a crash.
    assert ended(copied, "checkpoints").code == 0
    (history / "000001.json").write_text('{"event": "promote", "alias": "a"}\n')
    assert "000001.json is damaged" in refused(copied, "checkpoints")
    assert "000001.json is damaged" in refused(copied, "rollback", "a")


def test_an_alias_whose_earlier_checkpoint_was_removed_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    registry = Registry(store)
    for number in (1, 2):
        draft = store.draft("small", "sft", f"k{number}")
        made = store.commit(draft, kind="sft", identity={}, inputs={}, metrics={}, facts={})
        registry.promote(made, "a", [Finding("by hand", True, "a test")])
    shutil.rmtree(store.get("small/sft@1").path)
    assert "no artifact small/sft@1" in refused(tmp_path, "rollback", "a")
    assert registry.aliases() == {"a": "small/sft@2"}


def test_a_moved_artifact_is_named(copied: Path) -> None:
    numbers = copied / "store/artifacts/small/tokens"
    (numbers / "1").rename(numbers / "2")
    assert "holds artifact small/tokens@1; move it back" in refused(copied, "status")


def test_what_is_no_artifact_is_passed_over(copied: Path) -> None:
    for name in ("tokens/tmp", "tokens/²", "tokens/1.bak"):
        (copied / "store/artifacts/small" / name).mkdir()
    (copied / "store/artifacts/note.txt").write_text("")
    assert "small: finished" in ended(copied, "status").out


def made_elsewhere(folder: Path, accuracy: float) -> str:
    """The measured recipe, with every result in the store as another run's; its base's address."""
    store = Store(folder / "store")
    plan = resolve(load(write(folder, MEASURED)), store)
    addresses: dict[str, str] = {}
    for node in plan.nodes.values():
        draft = store.draft("other", node.name, node.key)
        inputs = {role: addresses[source] for role, source in node.inputs.items()}
        metrics = {"chains.accuracy": accuracy} if node.kind == "evaluate" else {}
        made = store.commit(
            draft, kind=node.kind, identity={}, inputs=inputs, metrics=metrics, facts={}
        )
        addresses[node.name] = made.address
    return addresses["base"]


@pytest.mark.parametrize(("accuracy", "code"), [(0.6, 0), (0.4, 3)])
def test_the_gates_of_the_recipe_that_runs_decide_whoever_made_the_checkpoint(
    tmp_path: Path, accuracy: float, code: int
) -> None:
    address = made_elsewhere(tmp_path, accuracy)
    done = ended(tmp_path, "run", str(tmp_path / "r.yaml"))
    assert done.code == code, done
    moved = {"candidate": address} if code == 0 else {}
    assert Registry(Store(tmp_path / "store")).aliases() == moved
    assert f"{accuracy:.3f} >= 0.500" in done.out
    assert done.err.count("\n") == (code != 0)


def test_promoting_by_hand_asks_the_run_that_made_the_checkpoint(tmp_path: Path) -> None:
    address = made_elsewhere(tmp_path, 0.6)
    assert "'other' has not been started" in refused(tmp_path, "promote", address, "--to", "a")
    plan = resolve(load(tmp_path / "r.yaml"), Store(tmp_path / "store"))
    Journal(Store(tmp_path / "store"), "other").begin(describe(plan))
    assert ended(tmp_path, "promote", address, "--to", "trial").code == 0
    assert "trial is already" in ended(tmp_path, "promote", address, "--to", "trial").out
    listed = ended(tmp_path, "checkpoints").out
    assert listed.split() == [address, "pretrain", "trial"]


def test_long_lines_stay_lines_where_no_terminal_is(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    made_elsewhere(deep, 0.6)
    done = ended(deep, "run", str(deep / "r.yaml"))
    assert f"next:\n  posttrain show other/base@1 --store {deep}/store\n" in done.out
    assert f"artifacts: {deep}/store/artifacts/small\n" in done.out
