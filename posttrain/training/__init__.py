"""Training: optimizers, schedules, RoPE, checkpoints and the loops that use them.

Config models live beside what they configure, in modules that import torch only inside functions,
so that a plan is resolved without it.
"""
