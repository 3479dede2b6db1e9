"""Imported before anything else by `python -m app.web`, to keep out what a server loads and never uses."""

import sys
from typing import cast

# structlog takes rich for tracebacks at a terminal when it can be imported: 4 MB, with what it highlights code with.
cast("dict[str, object]", sys.modules)["rich"] = None
