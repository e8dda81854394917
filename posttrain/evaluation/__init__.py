"""Measuring checkpoints: sampling from a model and the suites that score what it says."""
