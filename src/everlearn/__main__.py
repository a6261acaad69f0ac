"""``python -m everlearn`` is the command line."""

from everlearn.cli import main

if __name__ == "__main__":
    main()
