# SPDX-License-Identifier: BSD-2-Clause
"""Fixtures of the command line's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from fake_master import clean_environment, gnt, master

__all__ = ["clean_environment", "gnt", "master"]
