"""Conversion of trained weights into a Hugging Face folder that others can load and serve."""
