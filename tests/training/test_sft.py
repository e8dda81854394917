import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from posttrain.data.chat import Rendered
from posttrain.data.mixture import Mixture, OnExhausted, Part
from posttrain.data.packing import PackingConfig
from posttrain.training import checkpoint, drawing, sft
from posttrain.training.engine import Engine, rows, tensors
from posttrain.training.loop import update
from posttrain.training.optimizers import OptimizerConfig
from posttrain.training.process import single_process_group
from posttrain.training.rope import ContextConfig, RopeConfig
from posttrain.training.schedules import ScheduleConfig
from posttrain.training.sft import Settings, Start
from tests.training.conftest import World, read


def mixed(
    shares: Mapping[str, float], on_exhausted: OnExhausted = "repeat", epochs: float = 1.0
) -> Mixture:
    """Eight batches of six; each source has as many epochs."""
    parts = {name: Part(share=share, epochs=epochs) for name, share in shares.items()}
    return Mixture(parts, "tokens", on_exhausted, 48, 6)


SETTINGS = Settings(
    steps=8,
    batch=6,
    optimizer=OptimizerConfig.model_validate({"muon": {"lr": 1e-2}, "adamw": {"lr": 2e-3}}),
    schedule=ScheduleConfig.model_validate({"wsd": {"warmup": 1, "decay": 4}}),
    context=None,
    mixture=mixed({"dialogues": 1.0}),
    seed=3,
    threads=1,
    save_every=3,
)
MIXED = replace(
    SETTINGS,
    mixture=mixed({"documents": 0.7, "dialogues": 0.3}),
    context=ContextConfig(length=300, rope=RopeConfig(theta=800)),
)
"""As in long-context SFT: two sources, another RoPE."""


def _finetune(
    start: Start, world: World, settings: Settings, root: Path, report: sft.Report | None = None
) -> tuple[dict[str, float], dict[str, Any]]:
    for name in ("work", "output"):
        (root / name).mkdir(parents=True, exist_ok=True)
    return sft.finetune(
        start, {name: getattr(world, name) / "train.jsonl" for name in settings.mixture.parts},
        settings, backend="cpu", work=root / "work", output=root / "output",
        report=report or (lambda step, steps, metrics: None),
    )  # fmt: skip


@pytest.fixture(scope="module")
def tuned(world: World, base: Start, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """The checkpoint of an undisturbed run of MIXED."""
    root = tmp_path_factory.mktemp("tuned")
    _, facts = _finetune(base, world, MIXED, root)
    return Start(root / "output", facts)


def test_the_loss_counts_masked_targets_only(base: Start) -> None:
    """Against a plain loop: the same loss, and the same weights after a step."""
    examples = [Rendered([1, 30, 31, 32, 33], [0, 0, 1, 0, 1]), Rendered([1, 40, 41], [0, 0, 1])]
    engine_model, plain = (checkpoint.load_model(base.path, base.facts) for _ in range(2))
    constant = ScheduleConfig.model_validate({"constant": {}})
    adamw = OptimizerConfig.model_validate({"adamw": {"lr": 1e-3}})
    with single_process_group("cpu"):
        engine = Engine(engine_model, base.path / "model", adamw, constant, 2, "cpu")
        line, _ = update(engine, tensors(rows(examples)), sft.LOSS)
        stepped = engine.trained_model()
    logits = [plain(torch.tensor([each.ids])).logits[0, :-1] for each in examples]
    picked = torch.stack([logits[0][1], logits[0][3], logits[1][1]])
    loss = functional.cross_entropy(picked, torch.tensor([31, 33, 41]))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    torch.optim.AdamW(plain.parameters(), lr=1e-3, weight_decay=0).step()
    assert line["loss"] == pytest.approx(loss.item(), rel=1e-6)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(stepped.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_documents_in_one_row_do_not_see_each_other(base: Start) -> None:
    """Packed or apart, and in rows of any number: the same losses and the same gradient."""
    draw = torch.Generator().manual_seed(0)
    texts = [[1, *torch.randint(20, 400, (n,), generator=draw).tolist()] for n in (4, 9, 9, 30)]
    examples = [Rendered(ids, [0, 0, *[1] * (len(ids) - 2)]) for ids in texts]
    plain = checkpoint.load_model(base.path, base.facts)
    apart = [
        functional.cross_entropy(
            plain(torch.tensor([each.ids])).logits[0, 1:-1], torch.tensor(each.ids[2:]),
            reduction="sum",
        ).item()
        for each in examples
    ]  # fmt: skip
    constant = ScheduleConfig.model_validate({"constant": {}})
    norms = []
    with single_process_group("cpu"):
        for size in (4, 2, 1):
            model = checkpoint.load_model(base.path, base.facts)
            folder = base.path / "model"
            engine = Engine(model, folder, SETTINGS.optimizer, constant, 2, "cpu")
            batch = tensors([examples[at : at + size] for at in range(0, 4, size)])
            with engine.train_mode():
                out = engine.train_batch(batch, sft.LOSS)
            norms.append(out["metrics"]["grad_norm"])
            assert sum(out["loss"]) == pytest.approx(sum(apart) / 48, rel=1e-5)
    assert norms == pytest.approx([norms[0]] * 3, rel=1e-5)


def test_rows_hold_neighbours_and_no_more_than_they_can() -> None:
    documents = [Rendered([1] * n, [0] * n) for n in (1000, 24, 1, 3000, 500, 500, 500)]
    lengths = [[len(each.ids) for each in row] for row in rows(documents)]
    assert lengths == [[1000, 24], [1], [3000], [500, 500], [500]]


def test_it_trains_one_stage_after_another_in_one_process(
    world: World, base: Start, tuned: Start, tmp_path: Path
) -> None:
    seen: list[tuple[int, Mapping[str, float]]] = []
    metrics, facts = _finetune(
        tuned, world, SETTINGS, tmp_path, lambda step, steps, line: seen.append((step, line))
    )
    assert [step for step, _ in seen] == list(range(1, 9))
    assert metrics["loss"] < read(tuned.path / "metrics.jsonl")[0]["loss"]
    assert facts["rope"] == tuned.facts["rope"] != base.facts["rope"]
    assert facts["weights_sha256"] not in (
        base.facts["weights_sha256"],
        tuned.facts["weights_sha256"],
    )
    checkpoint.load_model(tmp_path / "output", facts)


def test_the_record_says_what_ran(tuned: Start) -> None:
    assert tuned.facts["rope"]["parameters"]["rope_theta"] == 800
    assert tuned.facts["shares"]["documents"] == pytest.approx(0.7, abs=0.05)
    lines = read(tuned.path / "metrics.jsonl")
    assert tuned.facts["optimised_tokens"] == sum(line["targets"] for line in lines)
    model = checkpoint.load_model(tuned.path, tuned.facts)
    assert model.config.architectures == ["ApertusForCausalLM"]
    assert model.config.max_position_embeddings == 300


def test_where_the_data_ends_the_run_ends_with_its_schedule(
    world: World, base: Start, tmp_path: Path
) -> None:
    """`stop`: whole steps only, and the decay is laid out over those that there are."""
    rows = len(read(world.dialogues / "train.jsonl"))
    wanted = mixed({"dialogues": 1.0}, "stop", epochs=20 / rows)
    seen: list[tuple[int, int, Mapping[str, float]]] = []
    _, facts = _finetune(
        base, world, replace(SETTINGS, mixture=wanted), tmp_path, lambda *told: seen.append(told)
    )
    assert [(step, steps) for step, steps, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert facts["steps"] == 3
    assert facts["epochs"] == {"dialogues": pytest.approx(18 / rows)}
    assert seen[-1][2]["epochs.dialogues"] == facts["epochs"]["dialogues"]
    assert read(tmp_path / "output/metrics.jsonl")[-1]["rate"] < 1
    none = mixed({"dialogues": 1.0}, "stop", epochs=5 / rows)
    with pytest.raises(ValueError, match="exhausted before one step"):
        _finetune(base, world, replace(SETTINGS, mixture=none), tmp_path)


def test_reweighting_gives_an_exhausted_share_to_the_others(
    world: World, base: Start, tmp_path: Path
) -> None:
    shares = {"documents": 0.7, "dialogues": 0.3}
    few = len(read(world.documents / "train.jsonl"))
    parts = {
        "documents": Part(share=0.7, epochs=2 / few), "dialogues": Part(share=0.3, epochs=9),
    }  # fmt: skip
    wanted = mixed(shares)._replace(parts=parts, on_exhausted="reweight")
    _, facts = _finetune(base, world, replace(MIXED, mixture=wanted), tmp_path)
    assert facts["steps"] == 8
    assert facts["epochs"]["documents"] == pytest.approx(2 / few)
    assert facts["shares"]["documents"] < 0.3


def test_a_run_killed_dead_ends_bit_equal(
    world: World, base: Start, tuned: Start, tmp_path: Path
) -> None:
    """kill -9 in step 5 of 8, in a process of its own; the state is of step 3."""
    child = _child(base, tmp_path)
    try:
        _wait_for(tmp_path / "reached", child)
        child.send_signal(signal.SIGKILL)
    finally:
        child.kill()
        child.wait(10)
    resumed: list[int] = []
    _, facts = _finetune(base, world, MIXED, tmp_path, lambda step, *_: resumed.append(step))
    assert resumed == [4, 5, 6, 7, 8]
    assert facts == tuned.facts
    assert read(tmp_path / "output/metrics.jsonl") == read(tuned.path / "metrics.jsonl")


def _child(base: Start, root: Path) -> "subprocess.Popen[bytes]":
    """A run that stands still in step 5 until it is killed."""
    code = f"""
import time
from pathlib import Path
from tests.training.conftest import World
from tests.training.test_sft import MIXED, Start, _finetune
def stop(step, steps, metrics):
    if step == 5:
        Path({str(root / "reached")!r}).touch()
        time.sleep(120)
_finetune(Start(Path({str(base.path)!r}), {dict(base.facts)!r}), World(Path({str(root / "w")!r})),
          MIXED, Path({str(root)!r}), stop)
"""
    return subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])


def _wait_for(path: Path, child: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 100
    while not path.exists():
        assert child.poll() is None, "the run ended early"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_checkpoint_that_differs_from_its_record_is_refused(
    world: World, base: Start, tmp_path: Path
) -> None:
    for name in ("weights_sha256", "tokenizer_sha256", "template_sha256"):
        with pytest.raises(ValueError, match=name):
            _finetune(Start(base.path, base.facts | {name: "0"}), world, SETTINGS, tmp_path)
    rope = base.facts["rope"] | {"inv_freq_sha256": "0"}
    with pytest.raises(ValueError, match="RoPE"):
        _finetune(Start(base.path, base.facts | {"rope": rope}), world, SETTINGS, tmp_path)


def test_rows_beyond_the_context_are_refused(world: World, base: Start, tmp_path: Path) -> None:
    short = replace(SETTINGS, context=ContextConfig(length=20))
    with pytest.raises(ValueError, match=r"raise context\.length"):
        _finetune(base, world, short, tmp_path)


def test_divergence_is_an_error(world: World, base: Start, tmp_path: Path) -> None:
    wild = replace(SETTINGS, optimizer=OptimizerConfig.model_validate({"adamw": {"lr": 1e30}}))
    with pytest.raises(ValueError, match="lower the learning rate"):
        _finetune(base, world, wild, tmp_path)


def test_packed_and_unpacked_the_loss_is_the_same(
    world: World, base: Start, tmp_path: Path
) -> None:
    """All rows in one batch: as bins of the context, and one by one."""
    rows = len(read(world.dialogues / "train.jsonl"))
    context = checkpoint.load_model(base.path, base.facts).config.max_position_embeddings
    packing = PackingConfig(documents=64)
    data = {"dialogues": world.dialogues / "train.jsonl"}
    bins = len(drawing.read(data, world.tokenizer, context, packing).examples["dialogues"])
    assert bins < rows / 3
    runs = {}
    for name, batch, how in (("packed", bins, packing), ("apart", rows, None)):
        whole = SETTINGS.mixture._replace(examples=batch, batch=batch)
        settings = replace(SETTINGS, steps=1, batch=batch, mixture=whole, packing=how)
        _, facts = _finetune(base, world, settings, tmp_path / name)
        (line,) = read(tmp_path / name / "output/metrics.jsonl")
        runs[name] = (line, facts)
    packed, apart = runs["packed"], runs["apart"]
    assert packed[0]["loss"] == pytest.approx(apart[0]["loss"], rel=1e-5)
    assert packed[0]["gradient_norm"] == pytest.approx(apart[0]["gradient_norm"], rel=1e-4)
    assert packed[0]["tokens"] == apart[0]["tokens"]
    assert 0.5 < packed[1]["packing_fill"] <= 1
    assert "packing_fill" not in apart[1]


def test_a_packed_run_goes_on_bit_equal(world: World, base: Start, tmp_path: Path) -> None:
    """The state is of step 6 of 8; what it leaves out is trained again."""
    packed = replace(MIXED, packing=PackingConfig(documents=3), batch=2)
    _, facts = _finetune(base, world, packed, tmp_path)
    resumed: list[int] = []
    _, again = _finetune(base, world, packed, tmp_path, lambda step, *_: resumed.append(step))
    assert resumed == [7, 8]
    assert again == facts


def test_work_of_another_plan_is_refused(world: World, base: Start, tmp_path: Path) -> None:
    _finetune(base, world, replace(SETTINGS, save_every=1), tmp_path)
    with pytest.raises(ValueError, match=r"another plan .* settings\.seed was 3, is 4"):
        _finetune(base, world, replace(SETTINGS, seed=4), tmp_path)


def test_frozen_parts_stay_and_the_rest_is_trained(
    world: World, base: Start, tmp_path: Path
) -> None:
    frozen = replace(SETTINGS, freeze=(r"model\.layers\.0\..*",))
    _, facts = _finetune(base, world, frozen, tmp_path)
    before = dict(checkpoint.load_model(base.path, base.facts).named_parameters())
    after = dict(checkpoint.load_model(tmp_path / "output", facts).named_parameters())
    same = {name for name, value in before.items() if torch.equal(value, after[name])}
    assert same == {name for name in before if name.startswith("model.layers.0.")}
    assert facts["frozen"] == sum(before[name].numel() for name in same)


def test_bf16_computes_on_fp32_weights(world: World, base: Start, tmp_path: Path) -> None:
    losses = {}
    for compute in ("fp32", "bf16"):
        _, facts = _finetune(base, world, replace(SETTINGS, compute=compute), tmp_path / compute)
        trained = checkpoint.load_model(tmp_path / compute / "output", facts)
        assert trained.dtype == torch.float32
        losses[compute] = [
            line["loss"] for line in read(tmp_path / compute / "output/metrics.jsonl")
        ]
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=2e-2)


def test_bf16_weights_that_do_not_move_end_the_run(
    world: World, base: Start, tmp_path: Path
) -> None:
    slow = OptimizerConfig.model_validate({"adamw": {"lr": 1e-7}})
    settings = replace(SETTINGS, optimizer=slow, weights="bf16", compute="bf16")
    with pytest.raises(ValueError, match="of the weights moved in 5 steps"):
        _finetune(base, world, settings, tmp_path)
