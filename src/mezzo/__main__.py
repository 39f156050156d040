"""`python -m mezzo`."""

import sys

from mezzo.tools.main import main

sys.exit(main())
