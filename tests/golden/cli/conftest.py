# SPDX-License-Identifier: BSD-2-Clause
"""The golden texts use the same scripted master daemon as the unit tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "unit" / "cli"))

from fake_master import clean_environment, gnt, master

__all__ = ["clean_environment", "gnt", "master"]
