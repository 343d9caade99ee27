# SPDX-License-Identifier: BSD-2-Clause
"""What every node knows of its cluster without asking: one small file for each value (``ssconf_*``)."""

from ganeti.base.paths import Paths
from ganeti.system.files import plain_file


def ssconf(paths: Paths, key: str) -> str:
    """The text of a value, without white space around it; empty where the node has none, or it cannot be read."""
    try:
        with open(paths.ssconf_file(key), encoding="utf-8", errors="replace", opener=plain_file) as file:
            return file.read().strip()
    except OSError:
        return ""


def ssconf_words(paths: Paths, key: str) -> list[str]:
    """The words of a value that is a list, none where it is empty."""
    return ssconf(paths, key).split()
