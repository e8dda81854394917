"""Tests of training. verl picks its platform when first imported, so the backend is set up here."""

import os

from posttrain.backends import profile

os.environ.update(profile("cpu").environment)
