"""How fast the rollout engine decodes alone: `python -m tests.bench.rl_decode MODEL RESULT`.

Writes a JSON object: sequences decoded together -> seconds for one token of each (median of
`ROUNDS`), the engine being set as the CPU profile sets it.
"""

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

from posttrain.backends import profile

LIVE = (1, 8, 32, 64, 160)
TOKENS, PROMPT, ROUNDS = 64, 48, 3


def measured(model: Path) -> dict[int, float]:
    """Seconds a token for each of `LIVE`."""
    os.environ.update(profile("cpu").environment)
    from vllm import LLM, SamplingParams, TokensPrompt

    engine = LLM(
        model=str(model), skip_tokenizer_init=True, dtype="float32", enforce_eager=True,
        max_model_len=256, max_num_seqs=max(LIVE), num_gpu_blocks_override=1024, seed=1,
        distributed_executor_backend="uni", enable_prefix_caching=False,
        worker_extension_cls="posttrain.backends.cpu.vllm_worker.ReloadableWorker",
    )  # fmt: skip

    def seconds(live: int, tokens: int) -> float:
        sampling = SamplingParams(
            max_tokens=tokens, min_tokens=tokens, ignore_eos=True, detokenize=False, logprobs=0
        )
        prompts = [
            TokensPrompt(prompt_token_ids=[20 + each % 200] * PROMPT) for each in range(live)
        ]
        begun = time.perf_counter()
        engine.generate(prompts, sampling, use_tqdm=False)
        return time.perf_counter() - begun

    def token(live: int) -> float:
        """The prompts' share is taken off: they are read in either."""
        return (seconds(live, TOKENS) - seconds(live, 1)) / (TOKENS - 1)

    token(max(LIVE))
    return {live: median(token(live) for _ in range(ROUNDS)) for live in LIVE}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(measured(Path(sys.argv[1]))))
