# SPDX-License-Identifier: BSD-2-Clause
"""The consoles that drivers share (protocols, section 20)."""

from ganeti.model.node_calls.instances import Console
from ganeti.model.node_requests import InstanceSpec

VNC_BASE_PORT = 5900
_ANY_ADDRESS = ("0.0.0.0", "::")


def shell_console(spec: InstanceSpec, command: list[str], message: str | None = None) -> Console:
    """A console that is a command for root's shell on the instance's primary node."""
    return Console(
        instance=spec.name, kind="ssh", host=spec.primary_node, user="root", command=command, message=message
    )


def vnc_console(spec: InstanceSpec, bind: str, port: int) -> Console:
    """A display that is bound to an address or an interface."""
    shown = str(port - VNC_BASE_PORT)
    return Console(instance=spec.name, kind="vnc", host=display_host(spec, bind), port=port, display=shown)


def display_host(spec: InstanceSpec, bind: str) -> str:
    """Where a display is reached: the node, unless one address was chosen for it."""
    return spec.primary_node if bind in _ANY_ADDRESS or not _is_address(bind) else bind


def _is_address(text: str) -> bool:
    return ":" in text or text.replace(".", "").isdigit()
