"""Tests of the simulator of asynchronous RL."""
