"""What a recipe may say of an RL stage, and the verl overrides it amounts to.

Groups whose rewards are all equal are left out. Overrides map dotted keys of verl's PPO config to
values; nothing here imports verl.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from posttrain.backends import Profile
from posttrain.names import Name
from posttrain.quantities import Share
from posttrain.rl.algorithm import ACTOR, ObjectiveConfig
from posttrain.rl.degeneration import DegenerationConfig
from posttrain.rl.tools import TurnsConfig
from posttrain.training.optimizers import AdamWConfig

MODEL = "actor_rollout_ref.model"
ROLLOUT = "actor_rollout_ref.rollout"
_V1 = "trainer.v1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceConfig(_Strict):
    """Prompts of one data artifact, scored by `verifier`.

    `thinking` is the share of rows with deliberation enabled, drawn once per row; without it each
    row keeps its own flag. `share` is what the source gives of the prompts issued, in proportion
    to its rows unless any source says. A source that loses more than `drop_above` of its groups to
    faults is dropped and the run goes on without it; without that, `limits.faults` ends the run.
    """

    data: str
    verifier: str
    thinking: Share | None = None
    share: Annotated[Share, Field(gt=0)] | None = None
    drop_above: Share | None = None


class OptimizerConfig(_Strict):
    """AdamW at a constant rate; `clip` bounds the gradient norm."""

    adamw: AdamWConfig = AdamWConfig(lr=1e-6, decay=0.01)
    clip: PositiveFloat = 1.0


class LengthsConfig(_Strict):
    """Longest prompt and response, in tokens. A longer prompt is an error, never cut."""

    prompt: PositiveInt = 2048
    response: PositiveInt = 8192


class LimitsConfig(_Strict):
    """When a stage stops rather than train on what it cannot trust, or wait.

    `faults` bounds the share of groups lost to infrastructure, `unverifiable` the share of a
    source's responses that break their verifier, `correlation` what trainer and rollout log-probs
    must reach after each weight sync, `silence` the seconds without any event.
    """

    faults: Share = 0.2
    unverifiable: Share = 0.01
    correlation: float = Field(default=0.999, ge=0, le=1)
    silence: PositiveFloat = 300.0


class WatchConfig(_Strict):
    """Held-out evaluation while it trains: on `suites` of answers, every `every` steps.

    The weights the run starts from and the last are measured, too. The suite says attempts,
    temperature and length; prompts are rendered without deliberation.
    """

    suites: Annotated[tuple[Name, ...], Field(min_length=1)]
    every: PositiveInt = 10


class NodesConfig(_Strict):
    """Machines, and accelerators on each."""

    nodes: PositiveInt = 1
    per_node: PositiveInt = 1

    @property
    def devices(self) -> int:
        """Accelerators in all."""
        return self.nodes * self.per_node


class RolloutNodesConfig(NodesConfig):
    """`tensor_parallel` accelerators share one replica of the model."""

    tensor_parallel: PositiveInt = 1

    @model_validator(mode="after")
    def _whole_replicas(self) -> Self:
        if self.devices % self.tensor_parallel:
            raise ValueError(
                f"{self.devices} accelerators do not divide into replicas of {self.tensor_parallel}"
            )
        return self


class PlacementConfig(_Strict):
    """What trainer and rollout engine run on; they share nothing."""

    trainer: NodesConfig = NodesConfig()
    rollout: RolloutNodesConfig = RolloutNodesConfig()


class RlConfig(_Strict):
    """The science of an RL run: everything but where it starts from.

    A step trains on `prompts_per_step` prompts with `group` responses each, of at most
    1 + `staleness` steps' worth that are under way; 0 waits for fresh samples at every step. Which
    may be trained on is the `rule` (docs/rl.md): `drop` throws away what is older than `staleness`
    weight versions, `wait` does not begin before what is that old has finished, `windowed` trains
    on nothing issued `window` prompts or more after the oldest unfinished. `overrides` are verl's
    own keys, for what has no word here.
    """

    sources: dict[str, SourceConfig] = Field(min_length=1)
    group: int = Field(default=8, ge=2)
    prompts_per_step: PositiveInt = 256
    steps: PositiveInt
    staleness: int = Field(default=1, ge=0)
    rule: Literal["drop", "wait", "windowed"] = "drop"
    window: PositiveInt | None = None
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    lengths: LengthsConfig = LengthsConfig()
    temperature: PositiveFloat = 1.0
    turns: TurnsConfig | None = None
    degeneration: DegenerationConfig | None = None
    checkpoint_every: PositiveInt = 20
    watch: WatchConfig | None = None
    limits: LimitsConfig = LimitsConfig()
    placement: PlacementConfig = PlacementConfig()
    overrides: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _batch_divides(self) -> Self:
        responses, devices = self.prompts_per_step * self.group, self.placement.trainer.devices
        if responses % devices:
            raise ValueError(
                f"{self.prompts_per_step} prompts of {self.group} responses do not divide among "
                f"{devices} accelerators of the trainer"
            )
        return self

    @model_validator(mode="after")
    def _window_goes_with_its_rule(self) -> Self:
        if (self.rule == "windowed") != (self.window is not None):
            raise ValueError("`window`, in prompts, goes with `rule: windowed`, and that with it")
        return self

    @model_validator(mode="after")
    def _shares_are_whole(self) -> Self:
        given = self.shares()
        if given and (len(given) < len(self.sources) or abs(sum(given.values()) - 1) > 1e-6):
            told = ", ".join(f"{name} {share:.4g}" for name, share in given.items())
            raise ValueError(f"shares of sources: all or none, adding up to 100%; got {told}")
        return self

    def shares(self) -> dict[str, float]:
        """Source -> its share, of those that state one."""
        return {
            name: source.share
            for name, source in sorted(self.sources.items())
            if source.share is not None
        }

    def oldest(self) -> int:
        """Weight versions that a trained response's prompt is old at most, by the rule."""
        later = {
            "drop": 0,
            "wait": max(0, self.staleness - 1),
            "windowed": -(-((self.window or 1) - 1) // self.prompts_per_step),
        }
        return self.staleness + (later[self.rule] if self.staleness else 0)

    @model_validator(mode="after")
    def _owned_keys_stay_owned(self) -> Self:
        owned = sorted(set(self.overrides) & set(science(self)))
        if owned:
            raise ValueError(f"overrides {', '.join(owned)}: the stage's own keys decide these")
        return self


@dataclass(frozen=True)
class Place:
    """Where a run reads and writes: the model's folder, and `work` for all else; `resume` is the
    checkpoint to continue from."""

    model: Path
    work: Path
    resume: Path | None
    seed: int

    @property
    def prompts(self) -> Path:
        """Frozen prompts."""
        return self.work / "prompts.jsonl"

    @property
    def held_out(self) -> Path:
        """Frozen prompts of the held-out evaluation."""
        return self.work / "held_out.jsonl"

    @property
    def watched(self) -> Path:
        """Results of that."""
        return self.work / "watch.jsonl"

    @property
    def agents(self) -> Path:
        """verl's list of agent loops."""
        return self.work / "agents.yaml"

    @property
    def checkpoints(self) -> Path:
        """verl's checkpoints, a folder each."""
        return self.work / "checkpoints"

    @property
    def ledger(self) -> Path:
        """The sample ledger."""
        return self.work / "ledger.jsonl"

    @property
    def capacity(self) -> Path:
        """What the verifiers did when they were tried."""
        return self.work / "capacity.json"

    @property
    def resolved(self) -> Path:
        """The config that verl ran with."""
        return self.work / "verl.yaml"


def overrides(config: RlConfig, place: Place, profile: Profile) -> dict[str, Any]:
    """Everything the run sets in verl's config; a recipe's own overrides come last."""
    return {
        **_wiring(config, place),
        **profile.engine,
        **profile.rollout,
        **science(config),
        **config.overrides,
    }


def science(config: RlConfig) -> dict[str, Any]:
    """The overrides that decide what is learned."""
    adamw = config.optimizer.adamw
    return {
        **config.objective.settings(),
        f"{ACTOR}.optim.lr": adamw.lr,
        f"{ACTOR}.optim.betas": list(adamw.betas),
        f"{ACTOR}.optim.weight_decay": adamw.decay,
        f"{ACTOR}.optim.override_optimizer_config": {"eps": adamw.epsilon},
        f"{ACTOR}.optim.clip_grad": config.optimizer.clip,
        f"{ROLLOUT}.n": config.group,
        f"{ROLLOUT}.temperature": config.temperature,
        "data.max_prompt_length": config.lengths.prompt,
        "data.max_response_length": config.lengths.response,
        "data.train_batch_size": config.prompts_per_step,
        f"{ACTOR}.ppo_mini_batch_size": config.prompts_per_step,
        f"{_V1}.separate_async.parameter_sync_step": 1,
        f"{_V1}.separate_async.num_warmup_batches": config.staleness,
        f"{_V1}.sampler.max_off_policy_threshold": (
            None if config.rule == "windowed" else config.staleness + 1
        ),
        f"{_V1}.sampler.max_off_policy_strategy": "wait" if config.rule == "wait" else "drop",
        "trainer.total_training_steps": config.steps,
    }


def _wiring(config: RlConfig, place: Place) -> dict[str, Any]:
    """Overrides that put our plug-ins in place and switch off what is not used."""
    length = config.lengths.prompt + config.lengths.response
    sequences = config.prompts_per_step * config.group
    trainer, rollout = config.placement.trainer, config.placement.rollout
    each = sequences // trainer.devices
    micro = next(size for size in range(min(each, 128), 0, -1) if each % size == 0)
    return {
        f"{_V1}.trainer_mode": "separate_async",
        "actor_rollout_ref.hybrid_engine": False,
        f"{MODEL}.path": str(place.model),
        f"{MODEL}.external_lib": "posttrain.rl.objective",
        f"{ROLLOUT}.name": "vllm",
        f"{ROLLOUT}.load_format": "auto",
        f"{ROLLOUT}.nnodes": rollout.nodes,
        f"{ROLLOUT}.n_gpus_per_node": rollout.per_node,
        f"{ROLLOUT}.tensor_model_parallel_size": rollout.tensor_parallel,
        f"{ROLLOUT}.max_model_len": length,
        f"{ROLLOUT}.max_num_seqs": min(sequences, 256),
        f"{ROLLOUT}.seed": place.seed,
        f"{ROLLOUT}.agent.num_workers": 1,
        f"{ROLLOUT}.agent.default_agent_loop": "answer",
        f"{ROLLOUT}.agent.agent_loop_config_path": str(place.agents),
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": micro,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": micro,
        f"{ACTOR}.data_loader_seed": place.seed,
        f"{ACTOR}.checkpoint.save_contents": ["model", "optimizer", "extra"],
        "data.train_files": str(place.prompts),
        "data.val_files": str(place.prompts),
        "data.custom_cls.path": "pkg://posttrain.rl.prompts",
        "data.custom_cls.name": "PromptDataset",
        "data.dataloader_num_workers": 0,
        "data.shuffle": False,
        "reward.num_workers": 0,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "trainer.nnodes": trainer.nodes,
        "trainer.n_gpus_per_node": trainer.per_node,
        "trainer.logger": [],
        "trainer.val_before_train": False,
        "trainer.test_freq": -1,
        "trainer.total_epochs": EPOCHS,
        "trainer.save_freq": config.checkpoint_every,
        "trainer.default_local_dir": str(place.checkpoints),
        "trainer.resume_mode": "resume_path" if place.resume else "disable",
        "trainer.resume_from_path": str(place.resume) if place.resume else None,
    }


EPOCHS = 1_000_000
"""verl ends a run silently after `total_epochs`; only `steps` may end ours."""
