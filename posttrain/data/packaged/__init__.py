"""Prompts that ship in installed packages: read from where pip put them, and known by digest.

Always holds: a package's own code is not run to find out what it is; its version, licence and the
digest of its files go into the artifact made of it.
"""
