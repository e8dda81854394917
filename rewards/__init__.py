"""Reward service: verifiers behind HTTP. Imports neither torch nor ray, and never turns a fault
into a score."""
