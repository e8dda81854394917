"""Checkpoints in GGUF, llama.cpp's format, turned into Hugging Face folders.

Always holds: all that the file says of the model is understood, or it is refused: every tensor is
mapped once and has the shape that the config asks for, and no setting is left unread.
"""
