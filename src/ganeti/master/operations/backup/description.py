# SPDX-License-Identifier: BSD-2-Clause
"""What a backup says of its instance, in the form of an export's `config.ini`, so that it can be made again."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ganeti.base.errors import BlockDeviceError
from ganeti.master.operations.backup.chains import KeptBackup, sealing_key
from ganeti.model.node_requests import InstanceSpec
from ganeti.model.parameters import Parameter
from ganeti.model.view import ConfigView
from ganeti.wire.export_file import NIC_KEYS, Export, ExportedDisk, decode, encode, texts
from ganeti.wire.sealing import Sealing

PLACE = -1
"""Where the description stands among the disks, for sealing it."""


@dataclass(frozen=True)
class DumpFile:
    name: str
    size: int
    """In bytes."""
    sha256: str
    """Empty where a node did not say it."""


def description_of(
    spec: InstanceSpec,
    template: str,
    parameters: Iterable[Parameter],
    now_s: float,
    dumps: Sequence[DumpFile] = (),
) -> str:
    """*dumps* are an export's files, by disk; a backup has none. *parameters*: the hypervisor's.

    Those that only a cluster has, and those that Ganeti 3.1 does not know while they say nothing, are left out: it
    refuses to import an export that names them.
    """
    left_out = {each.name for each in parameters if each.cluster_only or (each.not_in_3_1 and _is_default(spec, each))}
    nics = []
    for nic in spec.nics:
        values = {key: getattr(nic, key) for key in NIC_KEYS if key != "network"}
        values["network"] = nic.network["name"] if nic.network else None
        nics.append({key: str(value) for key, value in values.items() if value})
    disks = []
    for disk in spec.disks:
        exported = ExportedDisk(ivname=f"disk/{disk.index}", dump="", size_mib=disk.size_mib, name=disk.name)
        if dumps:
            file = dumps[disk.index]
            exported = replace(exported, dump=file.name, dump_bytes=file.size, sha256=file.sha256 or None)
        disks.append(exported)
    return encode(
        Export(
            name=spec.name,
            timestamp=int(now_s),
            source=spec.primary_node,
            os=spec.os,
            disk_template=template,
            hypervisor=spec.hypervisor,
            tags=spec.tags,
            nics=nics,
            disks=disks,
            hvparams=texts({key: value for key, value in spec.hvparams.items() if key not in left_out}),
            beparams=texts(spec.beparams),
            osparams=texts(spec.osparams),
            osparams_private=texts(spec.osparams_private),
        )
    )


def _is_default(spec: InstanceSpec, parameter: Parameter) -> bool:
    return bool(spec.hvparams.get(parameter.name, parameter.default) == parameter.default)


def sealed(text: str, key: bytes, instance_uuid: str, nonce: bytes) -> str:
    """For a manifest: it may hold secrets."""
    return base64.b64encode(Sealing(key, instance_uuid).seal(PLACE, 0, text.encode(), nonce)).decode()


def described(known: KeptBackup, view: ConfigView) -> Export:
    """What the backed-up instance was; raises `BlockDeviceError`, `PrerequisiteError` for a damaged one."""
    backup = known.backup
    sealing = Sealing(sealing_key(view, backup.key_id), backup.instance_uuid)
    try:
        data = base64.b64decode(backup.instance, validate=True)
    except ValueError as err:
        raise BlockDeviceError(f"Backup {backup.id} is damaged: it does not say what the instance was") from err
    return decode(sealing.open_text(PLACE, 0, data).decode())
