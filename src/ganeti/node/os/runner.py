# SPDX-License-Identifier: BSD-2-Clause
"""Running the scripts of OS definitions: in their directory, with their environment alone, their words in a log."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ganeti.base.errors import CommandError, ExecutionError, ParameterError
from ganeti.model.node_calls.operating_systems import OsStatus
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node import dump_file
from ganeti.node.os import output
from ganeti.node.os.definition import (
    PARAMETERS_SINCE,
    VERIFY_SCRIPT,
    check_parameter_names,
    choose_variant,
    get,
)
from ganeti.node.os.environment import (
    base_environment,
    export_environment,
    import_environment,
    instance_environment,
)
from ganeti.node.runs import progress
from ganeti.ports.node_world import NodeWorld
from ganeti.system.files import single_digit


@dataclass(frozen=True)
class Streams:
    """Where a script's standard streams lead, besides its log."""

    stdin_path: str | None = None
    stdout_fd: int | None = None
    size_fd: int | None = None
    """Where the script may tell the size of what it writes."""


@dataclass(frozen=True)
class Prepared:
    """A script as another process is to run it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    log_path: str
    hidden: tuple[str, ...]
    """Values that only the log on the node may show."""


VERIFY_TIMEOUT_S = 60.0


async def create(
    world: NodeWorld,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    *,
    reinstall: bool,
    debug: int,
    timeout_s: float,
    token: str = "",
) -> None:
    """Install an instance. Raises `ExecutionError` with the script's last words and the name of its log."""
    extra = {"INSTANCE_REINSTALL": "1"} if reinstall else {}
    await _run(world, "create", "add", instance, disks, extra, debug=debug, timeout_s=timeout_s, token=token)


async def rename(
    world: NodeWorld,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    *,
    old_name: str,
    debug: int,
    timeout_s: float,
    token: str = "",
) -> None:
    """Tell the installed system its new name."""
    extra = {"OLD_INSTANCE_NAME": old_name}
    await _run(world, "rename", "rename", instance, disks, extra, debug=debug, timeout_s=timeout_s, token=token)


async def export_disk(
    world: NodeWorld,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    index: int,
    *,
    dump_path: str,
    debug: int,
    timeout_s: float,
    token: str = "",
) -> str:
    """Write the dump of one disk to *dump_path*; gives its SHA-256."""
    size_file = os.memfd_create("size", 0)
    try:
        extra = export_environment(disks[index], index) | {"EXP_SIZE_FD": str(single_digit(size_file))}

        async def run(into: int) -> None:
            streams = Streams(stdout_fd=into, size_fd=size_file)
            await _run(
                world,
                "export",
                "export",
                instance,
                disks,
                extra,
                debug=debug,
                timeout_s=timeout_s,
                token=token,
                streams=streams,
            )

        return await dump_file.write(dump_path, run, progress(token))
    finally:
        os.close(size_file)


async def import_disk(
    world: NodeWorld,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    index: int,
    *,
    dump_path: str,
    debug: int,
    timeout_s: float,
    token: str = "",
) -> None:
    """Fill one disk from the dump in *dump_path*."""
    extra = import_environment(disks[index], index)
    streams = Streams(stdin_path=dump_path)
    await _run(
        world,
        "import",
        "import",
        instance,
        disks,
        extra,
        debug=debug,
        timeout_s=timeout_s,
        token=token,
        streams=streams,
    )


def prepared_export(
    world: NodeWorld, instance: InstanceSpec, disks: Sequence[AttachedDisk], index: int, *, debug: int
) -> Prepared:
    """The script that writes the dump of one disk to its standard output, and foretells its size."""
    return _prepared(world, "export", "export", instance, disks, export_environment(disks[index], index), debug)


def prepared_import(
    world: NodeWorld, instance: InstanceSpec, disks: Sequence[AttachedDisk], index: int, *, debug: int
) -> Prepared:
    """The script that fills one disk from its standard input."""
    return _prepared(world, "import", "import", instance, disks, import_environment(disks[index], index), debug)


async def validate(world: NodeWorld, name: str, params: Mapping[str, Any], *, force_variant: bool) -> OsStatus:
    """See the node call `OsValidate`."""
    status = get(world.paths, name)
    variant = choose_variant(status, name, force=force_variant)
    check_parameter_names(status, list(params))
    if status.api_version >= PARAMETERS_SINCE:
        await _verify(world, status, name, variant, params)
    return status


async def _verify(world: NodeWorld, status: OsStatus, name: str, variant: str, params: Mapping[str, Any]) -> None:
    done = await world.run(
        [f"{status.path}/{VERIFY_SCRIPT}", "parameters"],
        env=base_environment(status, name, variant, params, 0),
        cwd=status.path,
        timeout_s=VERIFY_TIMEOUT_S,
        check=False,
    )
    if done.status != 0:
        reason = "; ".join(line.strip() for line in done.output.splitlines() if line.strip())
        raise ParameterError(
            f"Parameters of OS '{name}' are wrong: {reason or f'its verify script ended with status {done.status}'}"
        )


async def _run(
    world: NodeWorld,
    script: str,
    word: str,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    extra: Mapping[str, str],
    *,
    debug: int,
    timeout_s: float,
    token: str,
    streams: Streams | None = None,
) -> None:
    streams = streams or Streams()
    prepared = _prepared(world, script, word, instance, disks, extra, debug)
    output.begin(token, prepared.log_path, prepared.hidden)
    try:
        await world.run(
            prepared.argv,
            env=prepared.env,
            cwd=prepared.cwd,
            timeout_s=timeout_s,
            log_path=prepared.log_path,
            stdin_path=streams.stdin_path,
            stdout_fd=streams.stdout_fd,
            script_fd=streams.size_fd,
        )
    except CommandError as err:
        said = output.without(prepared.hidden, str(err))
        raise ExecutionError(f"OS {script} script of {instance.os} failed for {instance.name}: {said}") from err


def _prepared(
    world: NodeWorld,
    script: str,
    word: str,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    extra: Mapping[str, str],
    debug: int,
) -> Prepared:
    status = get(world.paths, instance.os)
    variant = choose_variant(status, instance.os, force=True)
    env = instance_environment(status, instance, disks, variant, debug) | dict(extra)
    log_path = log_name(world, word, instance.os, instance.name)
    hidden = tuple(str(value) for value in instance.osparams_private.values())
    return Prepared([f"{status.path}/{script}"], env, status.path, log_path, hidden)


def log_name(world: NodeWorld, word: str, os_name: str, instance: str) -> str:
    """A log of its own for each run, whose name holds nothing a file name should not."""
    stamp = datetime.fromtimestamp(world.now_s(), UTC).strftime("%Y-%m-%d_%H_%M_%S")
    safe = re.sub(r"[^A-Za-z0-9_.+-]", "_", f"{word}-{os_name}-{instance}-{stamp}")
    return f"{world.paths.os_log_dir}/{safe}.log"
