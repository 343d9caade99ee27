# SPDX-License-Identifier: BSD-2-Clause
"""`python -m ganeti_simulation`: simulate schedules by their seeds, scenarios by their files."""

import sys

from ganeti_simulation.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
