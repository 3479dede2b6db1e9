"""Files of the payload's state directory that hold what it was about to hand over. A host that reaches into a sandbox
which has ended finds there what had not arrived by then.

Each is put into its place whole, and both bundles hold everything since the start commit: the newer one counts.
"""

from __future__ import annotations

import re

from sandbox_payload.wire import ArtifactName

WORK_FILE = "work.bundle"
"""The work as it was at the end of a turn."""
KEPT_FILE = "kept.bundle"
"""The work as it was while a turn went on."""
TRANSCRIPT_FILE = ArtifactName.TRANSCRIPT.value
MANIFEST_FILE = ArtifactName.MANIFEST.value
"""Of a round that ended; it names the hash of its bundle, which is WORK_FILE unless another round has begun."""

LEFT_FILES = (WORK_FILE, KEPT_FILE, TRANSCRIPT_FILE, MANIFEST_FILE)

SPOOL_DIR = "spool"
SPOOL_FILE = re.compile(r"[0-9]{12}\.jsonl")
"""Of events, one a line (`Event`), from the number on that it is named by. The names sort as the numbers do."""
SPOOL_FILES = 4
"""Of them are looked at, the newest. An app that is there has all but the newest one or two by then."""
MAX_SPOOL_FILE_BYTES = 8_000_000
"""Twice what one holds when the next is begun."""
