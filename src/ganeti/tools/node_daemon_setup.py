# SPDX-License-Identifier: BSD-2-Clause
"""`node-daemon-setup`: writes what a node daemon needs to serve a cluster, and starts it (S3.4)."""

from collections.abc import Sequence

from ganeti.bootstrap.daemon_setup import set_up
from ganeti.bootstrap.joining_machine import converse
from ganeti.tools import joining


def main(arguments: Sequence[str] | None = None) -> int:
    purpose = "Make this machine's node daemon one of a cluster."
    return joining.run("node-daemon-setup", purpose, set_up, arguments, conversation=converse)
