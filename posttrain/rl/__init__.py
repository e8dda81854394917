"""Asynchronous RL with verl's separate_async trainer and vLLM rollouts, through their plug-ins.

`config` says what a recipe may ask and which verl overrides that means; `prompts` freezes the
prompts as token ids; `agent` turns a generation into a scored trajectory; `objective` holds the
policy loss; `buffer` bounds every wait for samples; `trainer` checks each weight sync and reports;
`session` starts all of it inside the Ray session at hand and leaves nothing behind.
"""
