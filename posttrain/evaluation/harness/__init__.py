"""lm-evaluation-harness as a way to measure: its tasks, asked of an OpenAI-compatible endpoint.

Always holds: the harness runs in a process of its own and reaches nothing but the endpoint; the
documents are rows of our data, never downloaded; what ran is recorded by version and task digest.
"""
