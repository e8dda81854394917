"""The matrix of a run: what each of its checkpoints can do, suite by suite, with intervals.

Always holds: figures are those of evaluations in the store, and of suites that may steer; a change
is told between checkpoints that were measured on the same prompts, and nowhere else.
"""
