# SPDX-License-Identifier: BSD-2-Clause
"""Running the scripts of OS definitions: in their directory, with their environment alone, their words in a log."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ganeti.base.errors import CommandError, ExecutionError, ParameterError, PrerequisiteError
from ganeti.model.node_requests import AttachedDisk, InstanceSpec
from ganeti.node.os.definition import (
    PARAMETERS_SINCE,
    VERIFY_SCRIPT,
    OsStatus,
    check_parameter_names,
    choose_variant,
    get,
)
from ganeti.node.os.environment import base_environment, instance_environment
from ganeti.ports.node_world import NodeWorld

VERIFY_TIMEOUT_S = 60.0
KNOWN_CHECKS = ("parameters",)


async def create(
    world: NodeWorld,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    *,
    reinstall: bool,
    debug: int,
    timeout_s: float,
) -> None:
    """Install an instance. Raises `ExecutionError` with the script's last words and the name of its log."""
    extra = {"INSTANCE_REINSTALL": "1"} if reinstall else {}
    await _run(world, "create", "add", instance, disks, extra, debug=debug, timeout_s=timeout_s)


async def rename(
    world: NodeWorld,
    instance: InstanceSpec,
    disks: Sequence[AttachedDisk],
    *,
    old_name: str,
    debug: int,
    timeout_s: float,
) -> None:
    """Tell the installed system its new name."""
    extra = {"OLD_INSTANCE_NAME": old_name}
    await _run(world, "rename", "rename", instance, disks, extra, debug=debug, timeout_s=timeout_s)


async def validate(
    world: NodeWorld,
    name: str,
    params: Mapping[str, Any],
    *,
    force_variant: bool,
    required: bool,
    checks: Sequence[str],
) -> bool:
    """See the node call `os_validate`."""
    for check in checks:
        if check not in KNOWN_CHECKS:
            raise ParameterError(f"Unknown check '{check}' of an OS: there is {', '.join(KNOWN_CHECKS)}")
    try:
        status = get(world.paths, name)
        variant = choose_variant(status, name, force=force_variant)
    except PrerequisiteError:
        if required:
            raise
        return False
    if "parameters" in checks:
        check_parameter_names(status, list(params))
        if status.api_version >= PARAMETERS_SINCE:
            await _verify(world, status, name, variant, params)
    return True


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
) -> None:
    status = get(world.paths, instance.os)
    variant = choose_variant(status, instance.os, force=True)
    env = instance_environment(status, instance, disks, variant, debug) | dict(extra)
    log_path = log_name(world, word, instance.os, instance.name)
    try:
        await world.run([f"{status.path}/{script}"], env=env, cwd=status.path, timeout_s=timeout_s, log_path=log_path)
    except CommandError as err:
        raise ExecutionError(f"OS {script} script of {instance.os} failed for {instance.name}: {err}") from err


def log_name(world: NodeWorld, word: str, os_name: str, instance: str) -> str:
    """A log of its own for each run, whose name holds nothing a file name should not."""
    stamp = datetime.fromtimestamp(world.now_s(), UTC).strftime("%Y-%m-%d_%H_%M_%S")
    safe = re.sub(r"[^A-Za-z0-9_.+-]", "_", f"{word}-{os_name}-{instance}-{stamp}")
    return f"{world.paths.os_log_dir}/{safe}.log"
