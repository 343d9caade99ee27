# SPDX-License-Identifier: BSD-2-Clause
"""How a person reaches a guest: serial line over ssh, VNC, SPICE, or a sentence why not (protocols, section 20)."""

import os
import shlex

from ganeti.model.node_calls.instances import Console
from ganeti.model.node_requests import InstanceSpec
from ganeti.node.hypervisors.consoles import display_host, shell_console, vnc_console
from ganeti.node.hypervisors.kvm.places import Places
from ganeti.node.hypervisors.kvm.sockets import LONGEST_PATH_BYTES

SOCAT = "/usr/bin/socat"
ESCAPE_KEY = "Ctrl-]"
_TERMINAL = "STDIO,raw,echo=0,icanon=0,escape=0x1d"


def console_of(spec: InstanceSpec, hvparams: dict[str, object], places: Places) -> Console:
    bind = str(hvparams["vnc_bind_address"])
    spice = str(hvparams["spice_bind"])
    if hvparams["serial_console"]:
        message = f"Press Enter for a prompt; {ESCAPE_KEY} leaves the console"
        return shell_console(spec, serial_command(places.socket(spec.name, "serial")), message)
    if bind and not bind.startswith("/") and spec.network_port is not None:
        return vnc_console(spec, bind, spec.network_port)
    if spice and spec.network_port is not None:
        host = display_host(spec, spice)
        return Console(instance=spec.name, kind="spice", host=host, port=spec.network_port)
    if bind.startswith("/"):
        text = f"The display is the Unix socket {bind.rstrip('/')}/{spec.name}.vnc on {spec.primary_node}"
    else:
        text = "The instance has no console: set serial_console=true, vnc_bind_address or spice_bind"
    return Console(instance=spec.name, kind="msg", message=text)


def serial_command(socket_path: str) -> list[str]:
    """A command for the node's shell; a path too long for a socket is entered by its directory."""
    if len(os.fsencode(socket_path)) <= LONGEST_PATH_BYTES:
        return [SOCAT, _TERMINAL, f"UNIX-CONNECT:{socket_path}"]
    directory, name = os.path.split(socket_path)
    return ["sh", "-c", shlex.quote(f"cd {shlex.quote(directory)} && exec {SOCAT} {_TERMINAL} UNIX-CONNECT:{name}")]
