"""`python -m rewards`: the command line of the reward service."""

from rewards.cli import main

if __name__ == "__main__":
    main()
