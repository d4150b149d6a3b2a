"""``python -m svdkl`` is ``svdkl``."""

import sys

from svdkl.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
