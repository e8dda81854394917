"""Charters: articles that a judge holds a model's responses to, as versioned, digested texts.

A charter is a Markdown file. Its digest is that of its bytes, and what a judge is shown is the
file as it is: so a verdict can be traced to the very words. Nothing here imports torch.
"""

from posttrain.charter.document import Article as Article
from posttrain.charter.document import Charter as Charter
from posttrain.charter.document import read as read
