# SPDX-License-Identifier: BSD-2-Clause
"""Renews the drawing of a job's life in `docs/design/job-life.md`: ``python -m ganeti.tools.job_life [FILE]``."""

import sys
from pathlib import Path

from ganeti.master.queue.drawing import redrawn


def main() -> int:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/design/job-life.md")
    path.write_text(redrawn(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
