# SPDX-License-Identifier: BSD-2-Clause
"""Write the pages that are not what the declarations say."""

import sys

from ganeti.reference.writing import write

if __name__ == "__main__":
    for path in write():
        sys.stdout.write(f"wrote {path.name}\n")
