# SPDX-License-Identifier: BSD-2-Clause
"""Makes `tests.fakes` importable wherever pytest is started from."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
