"""The actor that holds the synchronous baseline's trainer, in the place of ours."""

from collections.abc import Mapping
from typing import Any

from posttrain.rl.session import Runner, compose


class SyncRunner(Runner):
    """As the product's runner, with verl's synchronous trainer, which has no ledger."""

    def run(self, settings: Mapping[str, Any]) -> None:
        """Train to the last step."""
        import transfer_queue as tq

        config = compose(settings)
        tq.init(config.transfer_queue)
        try:
            self._train(config)
        finally:
            tq.close()

    def generating(self, prompt: int) -> None:
        """Nobody asks."""

    def generated(self, prompt: int, response: int, tokens: int, versions: list[int]) -> None:
        """Nobody asks."""

    def scored(
        self, prompt: int, response: int, source: str, status: str, reason: str,
        score: float | None, seconds: float,
    ) -> None:  # fmt: skip
        """Nobody asks."""

    def _train(self, config: Any) -> None:
        from verl.trainer.ppo.v1 import AgentLoopManagerTQ

        from tests.bench.rl_trainers import SyncTrainer

        trainer = SyncTrainer(config, self._report)
        trainer.init()
        agents = AgentLoopManagerTQ.create(
            config=config, llm_client=trainer.get_llm_client(), teacher_client=None,
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )  # fmt: skip
        trainer.fit(agents)
