"""`python -m rewards serve`: the command line of the reward service."""

import sys

from rewards.serve import main

if __name__ == "__main__":
    sys.exit(main())
