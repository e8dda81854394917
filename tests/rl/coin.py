"""A verifier for plumbing: the score is a coin flipped by the item's id, so groups differ."""

import hashlib

from rewards.schema import Item, Verdict, scored
from rewards.verifiers import Canary

