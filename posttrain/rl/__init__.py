"""Asynchronous RL with verl's separate_async trainer and vLLM rollouts, through their plug-ins.

`config` says what a recipe may ask and which verl overrides that means; `prompts` freezes the
prompts as token ids, `order` says which comes next; `agent` turns a generation into a scored
trajectory; `objective` holds the policy loss; `buffer` bounds every wait for samples; `ledger`
keeps the life of each prompt, `account` says what it amounts to, `sources` what that means for each
source; `watch` measures held-out prompts beside the training; `trainer` checks each weight sync and
reports; `session` starts all of it inside the Ray session at hand and leaves nothing behind.
"""
