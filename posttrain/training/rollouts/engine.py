"""The process of a rollout engine: reads messages from a pipe until that ends, and answers each.

Run as `python -m posttrain.training.rollouts.engine DESCRIPTOR PARENT`. vLLM is imported here
alone. The first message is the model; what follows are weights and prompts.
"""

import ctypes
import importlib
import os
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from posttrain.training.rollouts.messages import DONE, FAULT, Loaded, Model, Prompts

_PR_SET_PDEATHSIG = 1


class Engine:
    """vLLM's engine in this process."""

    def __init__(self, model: Model) -> None:
        for name in model.patches:
            importlib.import_module(name)
        from vllm import LLM

        # Log-probabilities at the temperature; ids in and out, so no tokenizer is needed.
        self._llm = LLM(
            **model.arguments, skip_tokenizer_init=True, logprobs_mode="processed_logprobs",
            disable_log_stats=True,
        )  # fmt: skip

    def answer(self, message: Loaded | Prompts) -> list[tuple[list[int], list[float]]]:
        """What the trainer is told; ValueError if the message cannot be obeyed."""
        if isinstance(message, Prompts):
            return self._respond(message)
        self._load(message)
        return []

    def _load(self, message: Loaded) -> None:
        """Take the weights over in place; what was computed with the old ones is dropped.

        ValueError if one of the model's own is not among them.
        """
        missing = [each for found in self._llm.collective_rpc(_load, args=(message.path,))
                   for each in found]  # fmt: skip
        if missing:
            raise ValueError(f"the file of weights lacks {', '.join(sorted(missing)[:3])}")
        if not self._llm.reset_prefix_cache():
            raise ValueError("the prefix cache of the old weights is in use")

    def _respond(self, message: Prompts) -> list[tuple[list[int], list[float]]]:
        """Ids and log-probabilities of a response to each prompt, in order."""
        from vllm import SamplingParams

        settings = [
            SamplingParams(
                temperature=message.temperature, max_tokens=message.longest, logprobs=0,
                stop_token_ids=message.stop_ids, ignore_eos=True, detokenize=False,
                seed=message.seed + place,
            )
            for place in range(len(message.ids))
        ]  # fmt: skip
        asked = [{"prompt_token_ids": each} for each in message.ids]
        found = self._llm.generate(asked, settings, use_tqdm=False)
        return [_told(each.outputs[0]) for each in found]


def _load(worker: Any, path: str) -> list[str]:
    """Run by each of vLLM's workers: names of the parameters that the file did not fill."""
    from safetensors.torch import load_file

    model = worker.model_runner.model
    filled = model.load_weights(iter(load_file(path).items()))
    return [name for name, _ in model.named_parameters() if name not in filled]


def _told(output: Any) -> tuple[list[int], list[float]]:
    ids = list(output.token_ids)
    return ids, [at[token].logprob for at, token in zip(output.logprobs, ids, strict=True)]


def _serve(line: "Connection[Any, Any]") -> None:
    """Answer until the other end is closed."""
    engine = Engine(line.recv())
    line.send((DONE, None))
    while True:
        message = line.recv()
        try:
            line.send((DONE, engine.answer(message)))
        except ValueError as fault:
            line.send((FAULT, str(fault)))


def _end_with(parent: int) -> None:
    """Have the kernel end this process when the one that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def main(descriptor: int, parent: int) -> None:
    """The process."""
    _end_with(parent)
    # vLLM writes to standard output, which may be the trainer's.
    os.dup2(2, 1)
    with suppress(EOFError):
        _serve(Connection(descriptor))
    os._exit(0)  # vLLM's threads are not waited for.


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
