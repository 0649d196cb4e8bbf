"""Entry point of ``python -m retrograd``, the same as the command ``retrograd``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
