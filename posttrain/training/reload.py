"""`python -m posttrain.training.reload ARTIFACT`: load a checkpoint and compare it with its record.

Ends with 0 if weights, RoPE, tokenizer and template are bit for bit what the producing stage
recorded; otherwise with 1 and one line on standard error.
"""

import sys
from pathlib import Path

from posttrain.store import read_artifact
from posttrain.training.checkpoint import load_model


def main() -> int:
    """Reload the artifact named by the first argument."""
    artifact = read_artifact(Path(sys.argv[1]))
    try:
        load_model(artifact.path, artifact.record.facts)
    except (ValueError, OSError) as fault:
        sys.stderr.write(f"{fault}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
