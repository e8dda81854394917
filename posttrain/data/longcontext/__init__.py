"""Long-context tasks (facts.md 4.4): three that train, and the probes of the long-context suite.

Training rows ask for the counts of a document's frequent words, for the order of its shuffled
sections, or for a key in a long list of dictionaries.

Always holds: an answer can be worked out from the text of its row alone; no row is longer than
the length it was made for; rows are a function of the sources, the tokenizer, the parameters and
the seed. Nothing here imports torch or transformers before rows are made.
"""
