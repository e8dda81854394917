"""posttrain turns a base language model into a released assistant by running one recipe."""

__version__ = "0.1.0"
