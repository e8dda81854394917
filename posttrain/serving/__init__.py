"""Serving checkpoints: one vLLM server for each, and what it must know of the chat format.

Always holds: what a response says is told by its token ids, in the reply as in the stream of it;
a server that was started here ends when whoever started it does.
"""
