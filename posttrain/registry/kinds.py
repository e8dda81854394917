"""Which kinds of stage make checkpoints."""

CHECKPOINT_KINDS = (
    "adopt", "pretrain", "sft", "rl", "dpo", "qrpo", "sdpo", "followups", "select", "convert",
)  # fmt: skip
