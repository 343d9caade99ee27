# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance console (protocols, section 20)."""

from __future__ import annotations

import os
import shlex
import sys

from ganeti.base.addresses import host_and_port
from ganeti.cli import environment, jobs
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation

SSH_PORT = 22


def console(call: Invocation) -> int:
    answer = jobs.ask(call, {"OP_ID": "OP_INSTANCE_CONSOLE", "instance_name": call.values["instance_name"]})
    kind = answer["kind"]
    if kind == "msg":
        out(answer["message"])
        return 0
    if kind == "vnc":
        display = f", display :{answer['display']}" if answer.get("display") is not None else ""
        return _listening(answer, f"VNC listening on {host_and_port(answer['host'], answer['port'])}{display}")
    if kind == "spice":
        return _listening(answer, f"SPICE listening on {host_and_port(answer['host'], answer['port'])}")
    if kind != "ssh":
        raise Failure(f"Console of kind '{kind}' is not known to this release: use the tools of the hypervisor")
    command = ssh_command(answer, environment.ssconf("cluster_name") or "")
    if call.get("show_command"):
        out(shlex.join(command))
        return 0
    return _run(command)


def _listening(answer: dict[str, Any], what: str) -> int:
    out(f"Instance {answer['instance']} has {what}")
    return 0


def ssh_command(answer: dict[str, Any], cluster_name: str) -> list[str]:
    """Give the ssh command that reaches the console; host keys are known under the cluster's name."""
    known_hosts = f"{environment.root()}/var/lib/ganeti/known_hosts"
    settings = (
        "EscapeChar=none",
        f"GlobalKnownHostsFile={known_hosts}",
        "UserKnownHostsFile=/dev/null",
        "HashKnownHosts=no",
        "CheckHostIP=no",
        f"HostKeyAlias={cluster_name}",
        "StrictHostKeyChecking=yes",
        "BatchMode=yes",
        "ConnectTimeout=10",
        f"Port={answer.get('port') or SSH_PORT}",
    )
    options = [word for setting in settings for word in ("-o", setting)]
    target = f"{answer.get('user') or 'root'}@{answer['host']}"
    return ["ssh", "-q", *options, "-t", target, "--", shlex.join(answer["command"])]


def _run(command: list[str]) -> int:
    """Become the ssh client: its exit status is that of this command."""
    sys.stdout.flush()
    try:
        os.execvp(command[0], command)  # noqa: S606
    except FileNotFoundError:
        err("The program 'ssh' is not installed: install openssh-client")
        return 1
