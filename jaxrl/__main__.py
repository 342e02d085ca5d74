"""`python -m jaxrl` is `jaxrl`."""

from __future__ import annotations

import sys

from jaxrl.cli import main

sys.exit(main())
