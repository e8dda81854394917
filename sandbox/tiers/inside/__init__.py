"""Runs inside the sandbox: the standard library only, and nothing of the service but this package.

Whatever is here can be read by the program, so nothing here is secret.
"""
