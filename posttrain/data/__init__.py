"""Conversations, documents and their tokens. Structure is decided by token id, never by text."""
