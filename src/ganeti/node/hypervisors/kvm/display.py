# SPDX-License-Identifier: BSD-2-Clause
"""VNC and SPICE: QEMU's arguments, and the passwords, which go over QMP and never into an argument list."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti.base.addresses import bracketed
from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors import connections
from ganeti.node.hypervisors.consoles import VNC_BASE_PORT
from ganeti.node.hypervisors.kvm.record import RuntimeRecord

SPICE_CARD = "qxl"
_PASSWORD_BYTES = 4096


@dataclass(frozen=True)
class Display:
    """Arguments of a display, and what is to be said over QMP before the guest runs."""

    arguments: Sequence[str] = ()
    commands: Sequence[tuple[str, dict[str, Any]]] = ()


async def display_of(record: RuntimeRecord, paths: Paths) -> Display:
    """Give the display a guest asks for; raises `HypervisorError`."""
    hvparams = record.hvparams
    if hvparams["vnc_bind_address"]:
        return await _vnc(record, paths)
    if hvparams["spice_bind"]:
        return await _spice(record, paths)
    return Display(["-display", "none", "-vga", hvparams["vga"] or "none"])


async def _vnc(record: RuntimeRecord, paths: Paths) -> Display:
    hvparams = record.hvparams
    bind = hvparams["vnc_bind_address"]
    arguments: list[str] = []
    if bind.startswith("/"):
        options = [f"unix:{_escaped(vnc_socket(bind, record.name))}"]
    else:
        port = _port(record, "VNC")
        if port < VNC_BASE_PORT:
            raise HypervisorError(f"The network port {port} cannot serve VNC: it must be {VNC_BASE_PORT} or above")
        address = await _address(bind, paths)
        options = [f"{bracketed(address)}:{port - VNC_BASE_PORT}"]
    if hvparams["vnc_tls"]:
        verify = "on" if hvparams["vnc_x509_verify"] else "off"
        arguments += [
            "-object",
            f"tls-creds-x509,id=vnc-tls,endpoint=server,dir={_escaped(hvparams['vnc_x509_path'])},verify-peer={verify}",
        ]
        options.append("tls-creds=vnc-tls")
    commands: list[tuple[str, dict[str, Any]]] = []
    if hvparams["vnc_password_file"]:
        options.append("password=on")
        password = read_password(hvparams["vnc_password_file"], "vnc_password_file")
        commands.append(("set_password", {"protocol": "vnc", "password": password}))
    arguments += ["-vnc", ",".join(options), "-vga", hvparams["vga"] or "std"]
    return Display(arguments, commands)


def vnc_socket(directory: str, name: str) -> str:
    return f"{directory.rstrip('/')}/{name}.vnc"


async def _spice(record: RuntimeRecord, paths: Paths) -> Display:
    hvparams = record.hvparams
    address = await _address(hvparams["spice_bind"], paths, int(hvparams["spice_ip_version"]))
    options = [f"addr={address}", "ipv6=on" if ":" in address else "ipv4=on"]
    port = _port(record, "SPICE")
    if hvparams["spice_use_tls"]:
        data_dir = _escaped(paths.data_dir)
        options += [f"tls-port={port}", f"x509-cacert-file={data_dir}/spice-ca.pem"]
        options += [f"x509-key-file={data_dir}/spice.pem", f"x509-cert-file={data_dir}/spice.pem"]
        if hvparams["spice_tls_ciphers"]:
            options.append(f"tls-ciphers={_escaped(hvparams['spice_tls_ciphers'])}")
    else:
        options.append(f"port={port}")
    for name, option in (
        ("spice_image_compression", "image-compression"),
        ("spice_jpeg_wan_compression", "jpeg-wan-compression"),
        ("spice_zlib_glz_wan_compression", "zlib-glz-wan-compression"),
        ("spice_streaming_video", "streaming-video"),
    ):
        if hvparams[name]:
            options.append(f"{option}={hvparams[name]}")
    options.append(f"playback-compression={'on' if hvparams['spice_playback_compression'] else 'off'}")
    options.append(f"agent-mouse={'on' if hvparams['spice_use_vdagent'] else 'off'}")
    commands: list[tuple[str, dict[str, Any]]] = []
    if hvparams["spice_password_file"]:
        password = read_password(hvparams["spice_password_file"], "spice_password_file")
        commands.append(("set_password", {"protocol": "spice", "password": password}))
    else:
        options.append("disable-ticketing=on")
    arguments = ["-display", "none", "-spice", ",".join(options), "-vga", hvparams["vga"] or SPICE_CARD]
    if hvparams["spice_use_vdagent"]:
        arguments += ["-device", "virtio-serial-pci,id=spice-serial"]
        arguments += ["-chardev", "spicevmc,id=vdagent,name=vdagent"]
        arguments += ["-device", "virtserialport,bus=spice-serial.0,chardev=vdagent,name=com.redhat.spice.0"]
    return Display(arguments, commands)


def read_password(path: str, parameter: str) -> str:
    """Give the first line of a password file; raises `HypervisorError`."""
    try:
        with open(path, encoding="utf-8") as source:
            password = source.read(_PASSWORD_BYTES).partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as err:
        raise HypervisorError(f"The file of {parameter}, {path}, cannot be read: {err}") from err
    if not password:
        raise HypervisorError(f"The file of {parameter}, {path}, is empty: write the password into its first line")
    return password


async def _address(bind: str, paths: Paths, version: int = 0) -> str:
    try:
        return str(ipaddress.ip_address(bind))
    except ValueError:
        return await connections.address_of(bind, paths, version)


def _port(record: RuntimeRecord, what: str) -> int:
    if record.network_port is None:
        raise HypervisorError(
            f"The instance {record.name} has no network port for {what}: the cluster must give it one"
        )
    return record.network_port


def _escaped(value: str) -> str:
    """QEMU reads two commas as one."""
    return value.replace(",", ",,")
