# SPDX-License-Identifier: BSD-2-Clause
"""`prepare-node-join`: sets the ssh keys of a machine that is to become a node (S3.1, S3.2)."""

from collections.abc import Sequence

from ganeti.bootstrap.prepare_join import prepare
from ganeti.tools import joining


def main(arguments: Sequence[str] | None = None) -> int:
    return joining.run(
        "prepare-node-join", "Set the ssh keys of a machine that is to become a node.", prepare, arguments
    )
