"""Probes: prompts for measuring a model, all held out, with what is right stated in each row.

Always holds: rows depend on the seed and the parameters alone, and nothing is trained on them.
"""
