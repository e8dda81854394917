"""Judges of responses, asked through the reward service, and how well they judge.

Always holds: what a judge did not say is never made up; its fault is no score. Nothing here imports
torch.
"""
