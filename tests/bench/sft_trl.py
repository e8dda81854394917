"""TRL's SFTTrainer with packing: `python -m tests.bench.sft_trl SPEC`, where TRL is installed.

It gets the documents one by one and packs them itself, best fit first as well.
"""

import random
import tempfile
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

from tests.bench.sft_rounds import Rounds, Spec, spec


class Told(TrainerCallback):  # type: ignore[misc]
    """Takes steps when told to."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._rounds.begin()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._rounds.end(0.0)


def documents(given: Spec) -> Dataset:
    """The documents in no order, masks as TRL names them."""
    flat = [each for packed in given.bins for each in packed]
    random.Random(0).shuffle(flat)
    return Dataset.from_dict(
        {
            "input_ids": [each["ids"] for each in flat],
            "completion_mask": [each["mask"] for each in flat],
        }
    )


def config(given: Spec, folder: str) -> SFTConfig:
    """One bin in memory at a time, as with the others."""
    return SFTConfig(
        output_dir=folder, use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False,
        packing=True, packing_strategy="bfd", max_length=given.capacity,
        per_device_train_batch_size=1, gradient_accumulation_steps=given.batch,
        learning_rate=given.rate, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
        max_steps=1000 * given.steps, save_strategy="no", report_to=[], logging_strategy="no",
        disable_tqdm=True, seed=0, optim="adamw_torch", model_init_kwargs={"dtype": "float32"},
    )  # fmt: skip


def main() -> None:
    """Train until input ends."""
    given = spec()
    rounds = Rounds(given.steps)
    import torch

    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            given.model, config(given, folder), train_dataset=documents(given),
            processing_class=tokenizer(), callbacks=[Told(rounds)],
        )  # fmt: skip
        trainer.train()


def tokenizer() -> Any:
    """One that TRL asks for, and that tokenised data never uses."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<s>": 1, "</s>": 2, "<pad>": 3, "<unk>": 0}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, "<unk>")),
        bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>",
    )  # fmt: skip


if __name__ == "__main__":
    main()
