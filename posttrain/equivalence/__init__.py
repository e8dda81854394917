"""The equivalence gate: whether a converted folder is the model it was made from.

Weights, config, RoPE, tokenizer, template, rendering, end of sequence and log-probabilities are
compared; each change must have been stated beforehand. What cannot be examined does not pass.
"""
