"""Runs untrusted programs against tests; knows nothing of training."""
