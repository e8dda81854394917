"""A conversion keeps what it is not told to change, whole or not at all."""

import errno
import json
import resource
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from transformers import AutoModelForCausalLM

from posttrain.conversion import writing
from posttrain.conversion.converting import convert
from posttrain.conversion.model import build
from posttrain.conversion.weights import Weights
from posttrain.conversion.writing import write
from posttrain.equivalence.behaviour import prompts
from posttrain.equivalence.changes import Changes
from posttrain.equivalence.examination import examine
from posttrain.promotion import reload_fault
from posttrain.serving.manifest import derived, read
from posttrain.stages import Progress, StageContext
from posttrain.stages import convert as stage
from posttrain.store import Artifact, Store
from posttrain.training import checkpoint
from posttrain.training.process import single_process_group
from tests.core.runs import ended
from tests.equivalence.test_examination import adapted, edit, one_bit

KEPT = 512
"""Rows of the head that are kept: control tokens have the lowest ids."""


def committed(store: Store, folder: Path) -> Artifact:
    """The folder as an SFT checkpoint made from data."""
    data = store.draft("r", "rows", "rows")
    (data.output / "train.jsonl").write_text("{}")
    rows = store.commit(data, kind="data", identity={}, inputs={}, metrics={}, facts={})
    draft = store.draft("r", "sft", str(folder))
    shutil.copytree(folder, draft.output / "model")
    return store.commit(
        draft, kind="sft", identity={}, inputs={"data.rows": rows.address}, metrics={}, facts={}
    )


def converted(store: Store, source: Artifact, **changes: Any) -> Artifact:
    """The artifact of a convert stage."""
    draft = store.draft("r", "release", str(changes))
    config = stage.Config.model_validate({"from": "sft", **changes})
    seen: list[Progress] = []
    context: StageContext[stage.Config] = StageContext(
        name="release", config=config, inputs={"from": source}, output=draft.output,
        work=draft.work, seed=1, backend="cpu", services={}, suites={}, report=seen.append,
    )  # fmt: skip
    outcome = stage.run(context)
    assert seen[-1].step == seen[-1].steps
    return store.commit(
        draft, kind="convert", identity={"config": config.model_dump()},
        inputs={"from": source.address}, metrics=outcome.metrics, facts=outcome.facts,
    )  # fmt: skip


def test_a_plain_conversion_is_the_model_it_was(store: Store, own_head: Path) -> None:
    source = committed(store, own_head)
    made = converted(store, source)
    assert set(made.record.facts["equivalence"]) >= {"weights", "rendering", "log-probabilities"}
    model = checkpoint.load_model(made.path, made.record.facts)
    before = AutoModelForCausalLM.from_pretrained(own_head, local_files_only=True)
    ids = torch.tensor([prompts(own_head)[1]])
    assert torch.equal(model(ids).logits, before(ids).logits)
    assert reload_fault(made) is None


def test_it_holds_the_manifest_it_is_served_by(store: Store, own_head: Path) -> None:
    source = committed(store, own_head)
    folder = converted(store, source, dtype="bfloat16", most_kl=0.5).path / "model"
    manifest = json.loads((folder / "serving.json").read_text())
    assert (manifest["dtype"], manifest["context_length"]) == ("bfloat16", 512)
    assert read(folder) == derived(folder)


def test_the_card_names_lineage_changes_and_figures(store: Store, own_head: Path) -> None:
    made = converted(store, committed(store, own_head), dtype="bfloat16", most_kl=0.5)
    text = (made.path / "model/README.md").read_text()
    assert "| `r/rows@1` | data | nothing |" in text
    assert "| `r/sft@1` | sft | data.rows `r/rows@1` |" in text
    assert "* dtype: bfloat16" in text
    assert "| log-probabilities | KL at most" in text
    config = json.loads((made.path / "model/config.json").read_text())
    assert config["dtype"] == "bfloat16"


@pytest.mark.parametrize("head", ["own_head", "tied_head"])
def test_a_pruned_head_gives_the_same_logits_for_what_it_kept(
    head: str, store: Store, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(head)
    made = converted(store, committed(store, folder), output_vocabulary=KEPT)
    target = made.path / "model"
    config = json.loads((target / "config.json").read_text())
    assert (config["output_vocab_size"], config["tie_word_embeddings"]) == (KEPT, False)
    assert config["vocab_size"] > KEPT
    tensors = load_file(target / "model.safetensors")
    assert len(tensors["lm_head.weight"]) == KEPT
    assert len(tensors["model.embed_tokens.weight"]) == config["vocab_size"]
    before, after = (build(each, Weights(each)) for each in (folder, target))
    for row in prompts(folder):
        ids = torch.tensor([row])
        assert torch.equal(before(ids).logits[..., :KEPT], after(ids).logits)
    model = checkpoint.load_model(made.path, made.record.facts)
    assert model.lm_head.weight.shape[0] == KEPT


def test_a_head_is_not_pruned_of_what_must_be_written(store: Store, own_head: Path) -> None:
    source = committed(store, own_head)
    with pytest.raises(ValueError, match=r"output_vocabulary 5 cuts off .* keep at least"):
        converted(store, source, output_vocabulary=5)
    with pytest.raises(ValueError, match="must not exceed that"):
        converted(store, source, output_vocabulary=10**6)


def sharded(folder: Path, target: Path, ranks: int) -> Path:
    """The folder as verl keeps it: a shard for each rank, the rest in `huggingface`."""
    shutil.copytree(folder, target / "huggingface", ignore=shutil.ignore_patterns("*.safetensors*"))
    states: list[dict[str, torch.Tensor]] = [{} for _ in range(ranks)]
    with single_process_group("cpu"):
        mesh = init_device_mesh("cpu", (1,))
        for name, tensor in Weights(folder).items():
            parts = tensor.chunk(ranks) if tensor.dim() and len(tensor) >= ranks else [tensor] * 2
            for state, part in zip(states, parts, strict=True):
                state[name] = DTensor.from_local(
                    part.clone(), mesh, [Shard(0) if part.shape != tensor.shape else Replicate()],
                    run_check=False, shape=tensor.shape, stride=tensor.stride(),
                )  # fmt: skip
        for rank, state in enumerate(states):
            torch.save(state, target / f"model_world_size_{ranks}_rank_{rank}.pt")
    return target


@pytest.fixture(scope="module")
def shards(own_head: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sharded(own_head, tmp_path_factory.mktemp("ranks") / "model", 2)


def test_shards_of_ranks_become_one_folder(shards: Path, own_head: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(Weights(shards), shards / "huggingface", target, Changes())
    found = examine(own_head, target, Changes())
    assert [check.text() for check in found if not check.passed] == []


@pytest.mark.parametrize("deed", ["lost", "short"])
def test_shards_that_are_not_whole_are_refused(shards: Path, tmp_path: Path, deed: str) -> None:
    copy = Path(shutil.copytree(shards, tmp_path / "copy"))
    shard = copy / "model_world_size_2_rank_1.pt"
    if deed == "lost":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:-500])
    with pytest.raises(ValueError, match=r"not whole|cut short"):
        Weights(copy)


def test_an_adapter_is_merged(store: Store, own_head: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(own_head, tmp_path / "folder"))
    adapted(folder)
    made = converted(store, committed(store, folder))
    assert not (made.path / "model/adapter_config.json").exists()
    assert not examine(own_head, made.path / "model", Changes())[0].passed
    assert all(check.passed for check in examine(folder, made.path / "model", Changes()))


def test_large_weights_are_written_in_shards(own_head: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(Weights(own_head), own_head, target, Changes(), shard_bytes=50_000)
    assert len(list(target.glob("model-*-of-*.safetensors"))) > 2
    assert all(check.passed for check in examine(own_head, target, Changes()))
    AutoModelForCausalLM.from_pretrained(target, local_files_only=True)
    with pytest.raises(ValueError, match="is there already"):
        write(Weights(own_head), own_head, target, Changes())


def test_a_full_disk_leaves_no_artifact(
    store: Store, own_head: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = committed(store, own_head)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        converted(store, source)
    assert [each.address for each in store.artifacts()] == ["r/rows@1", "r/sft@1"]


def test_a_disk_that_fills_up_in_mid_shard_is_a_fault_of_the_system(
    store: Store, own_head: Path
) -> None:
    source = committed(store, own_head)
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # The tokenizer fits in, no shard.
    try:
        with pytest.raises(OSError, match="File too large") as fault:
            converted(store, source)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (fault.value.errno, Path(fault.value.filename).suffix) == (errno.EFBIG, ".safetensors")
    assert [each.address for each in store.artifacts()] == ["r/rows@1", "r/sft@1"]


def test_a_conversion_that_came_out_wrong_is_refused(
    store: Store, own_head: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = committed(store, own_head)

    def wrong(weights: Weights, config: Path, target: Path, changes: Changes) -> None:
        write(weights, config, target, changes)
        one_bit(target)

    monkeypatch.setattr("posttrain.conversion.converting.write", wrong)
    with pytest.raises(ValueError, match=r"not what it was made from: weights: model\.norm"):
        convert(source, tmp_path / "output", Changes())


def test_folders_and_checkpoints_are_examined_by_a_command(
    store: Store, own_head: Path, tmp_path: Path
) -> None:
    made = converted(store, committed(store, own_head))
    same = ended(tmp_path, "checkpoints", "equivalence", str(own_head), made.address, "--json")
    assert same.code == 0, same.err
    assert all(check["passed"] for check in json.loads(same.out))
    copy = Path(shutil.copytree(own_head, tmp_path / "copy"))
    edit(copy / "generation_config.json", lambda config: config.update(eos_token_id=2))
    other = ended(tmp_path, "checkpoints", "equivalence", made.address, str(copy))
    assert other.code == 3
    assert "end of sequence: fails" in other.out
    assert "config" in other.err
