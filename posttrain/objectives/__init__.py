"""Objectives of preference alignment and self-distillation, as pure functions of tensors.

Nothing here reads or writes anything, keeps state or knows of models and engines. Every function
says its shapes and source; probabilities are natural logarithms, lengths are tokens. Half
precision is computed in float32; float32 and float64 stay as they are. What does not fit (shapes,
a completion without tokens) is a ValueError, never a number.

Losses come per pair, completion or token, and the caller divides by what the whole batch holds:
so a batch's gradient is the same however it is cut into micro-batches.

`config` is what a recipe may say, and imports no torch.
"""
