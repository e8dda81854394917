"""Bisection: which stage, or which steps of one, made a checkpoint fail prompts that were right.

Always holds: both ends are measured before anything is searched; every checkpoint is asked the same
prompts with the same seed; no checkpoint is measured twice.
"""
