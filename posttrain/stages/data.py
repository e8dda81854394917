"""Data: a seeded generator's rows, frozen as `train.jsonl` and, if asked, `holdout.jsonl`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, ValidationError, model_validator

from posttrain.stages import Outcome, Progress, StageConfig, StageContext

VERSION = 1
