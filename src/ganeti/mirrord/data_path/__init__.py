# SPDX-License-Identifier: BSD-2-Clause
"""The storage daemon of one mirrored disk: C sources of the program that serves the image and writes to both copies."""

import os

PROGRAM = os.path.join(os.path.dirname(__file__), "storage-daemon")
"""``setup/compile`` builds it beside the sources."""
