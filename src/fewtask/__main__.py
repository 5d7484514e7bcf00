"""python -m fewtask."""

import sys

from fewtask.cli import main

sys.exit(main())
