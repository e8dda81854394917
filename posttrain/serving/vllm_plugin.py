"""The file that vLLM is told to load, once for each kind of parser: both are in one module."""

from posttrain.serving.vllm_parser import register

register()
