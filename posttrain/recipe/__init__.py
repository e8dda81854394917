"""The recipe language: one strict YAML file that says what is made from what."""

from posttrain.recipe.loading import load
from posttrain.recipe.schema import Recipe, Stage

__all__ = ["Recipe", "Stage", "load"]
