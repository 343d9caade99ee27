# SPDX-License-Identifier: BSD-2-Clause
"""Getting a machine ready to join: the host keys of its sshd, root's keys, who may come in as root (S3.1, S3.2)."""

import os
import time

from ganeti.base.errors import GanetiError
from ganeti.base.paths import Paths
from ganeti.bootstrap import join_input, ssh_keys
from ganeti.bootstrap.attempt import Attempt, settle_former
from ganeti.bootstrap.file_set import FileSet
from ganeti.bootstrap.join_input import KeyTriple, PrepareJoin
from ganeti.bootstrap.machine import Machine
from ganeti.system.files import plain_file


def prepare(data: bytes, machine: Machine, *, dry_run: bool = False) -> None:
    """Do what *data* asks; raises `PrerequisiteError` before anything is written, other errors after taking it back."""
    request = join_input.decode(data, PrepareJoin)
    if not dry_run:
        settle_former(machine)
    check(request, machine.paths)
    if dry_run:
        machine.say("All is well; nothing was changed because of --dry-run")
        return
    attempt = Attempt.begin(machine)
    try:
        apply(request, machine, attempt)
        attempt.keep()
    except (GanetiError, OSError) as err:
        attempt.take_back()
        raise err if isinstance(err, GanetiError) else GanetiError(f"The ssh keys could not be written: {err}") from err


def check(request: PrepareJoin, paths: Paths) -> None:
    join_input.check_cluster_name(request.cluster_name, paths)
    join_input.check_clock(request.time_s, time.time())
    if request.node_daemon_certificate is not None:
        join_input.certificates_in(request.node_daemon_certificate)
        join_input.check_same_authority(request.node_daemon_certificate, paths)
    join_input.check_keys(request)


def apply(request: PrepareJoin, machine: Machine, attempt: Attempt) -> None:
    """Write all keys; sshd is told if those of the host have changed."""
    paths, files = machine.paths, attempt.files
    files.expect(_paths_of(request, paths))
    given = {kind for kind, _, _ in request.ssh_root_key}
    for triple in request.ssh_root_key:
        if _install_key(triple, ssh_keys.root_key_path(paths, triple[0]), files, 0o700):
            machine.say(f"root's {triple[0]} key is set")
    if request.ssh_key_type is not None and request.ssh_key_type not in given:
        ssh_keys.ensure_root_key(machine, files, request.ssh_key_type, request.ssh_key_bits or 0)
    if request.authorized_keys and ssh_keys.authorize(paths, files, request.authorized_keys):
        machine.say("the cluster's keys are authorized for root")
    changed = [
        triple[0]
        for triple in request.ssh_host_key
        if _install_key(triple, ssh_keys.host_key_path(paths, triple[0]), files, 0o755)
    ]
    if changed:
        machine.say(f"host keys replaced: {', '.join(changed)}")
        attempt.change_host_keys()
        machine.daemon_util("reload-ssh-keys")


def _paths_of(request: PrepareJoin, paths: Paths) -> list[str]:
    """All files that will be written, but for a key that root has not got yet."""
    given = [(triple, ssh_keys.root_key_path(paths, triple[0])) for triple in request.ssh_root_key]
    given += [(triple, ssh_keys.host_key_path(paths, triple[0])) for triple in request.ssh_host_key]
    private = [path for triple, path in given if not _is_installed(triple, path)]
    authorized = [paths.authorized_keys] if request.authorized_keys else []
    return [*private, *(f"{path}.pub" for path in private), *authorized]


def _install_key(triple: KeyTriple, path: str, files: FileSet, directory_mode: int) -> bool:
    """Write both parts of a key unless they are there; True if that changed the key."""
    if _is_installed(triple, path):
        return False
    private, public = _texts(triple)
    files.directory(os.path.dirname(path), directory_mode)
    files.put(path, private, 0o600)
    files.put(f"{path}.pub", public, 0o644)
    return True


def _is_installed(triple: KeyTriple, path: str) -> bool:
    private, public = _texts(triple)
    return _read(path) == private and ssh_keys.same_key(_read(f"{path}.pub") or "-", public)


def _texts(triple: KeyTriple) -> tuple[str, str]:
    """Both parts as their files have them."""
    _, private, public = triple
    return private.rstrip("\n") + "\n", public.strip() + "\n"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=plain_file) as file:
            return file.read()
    except FileNotFoundError:
        return ""
