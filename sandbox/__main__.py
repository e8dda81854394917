"""`python -m sandbox serve`: the command line of the sandbox service."""

import sys

from sandbox.cli import main

if __name__ == "__main__":
    sys.exit(main())
