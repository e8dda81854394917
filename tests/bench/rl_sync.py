"""The actor that holds the synchronous baseline's trainer, in the place of ours."""

from typing import Any

from posttrain.rl.session import Runner


class SyncRunner(Runner):
    """As the product's runner, with verl's synchronous trainer."""

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
