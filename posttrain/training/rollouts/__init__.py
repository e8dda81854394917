"""Rollouts of the policy in training: who samples, and the proof that it is the trainer's policy.

`source` says what a sampler is and has the one of this process; `vllm` starts a vLLM engine in a
process of its own (`engine`) and keeps its weights those of the trainer; `checked` compares the
log-probabilities that it reports with the trainer's.
"""
