# SPDX-License-Identifier: BSD-2-Clause
"""Secrets of the cluster that `gnt-cluster renew-crypto` makes on the master, from which all nodes get them.

They are in no opcode, for that is written into the queue; a job sends the files. All are read and checked before the
first is written.
"""

import base64
import secrets
from collections.abc import Mapping
from typing import Any

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.base.paths import Paths
from ganeti.bootstrap.init import HMAC_KEY_BYTES, SECRET_BYTES
from ganeti.bootstrap.machine import Machine
from ganeti.node.certificates import create_self_signed, first_certificate, has_fitting_key, trusted_for
from ganeti.system.accounts import owner_for
from ganeti.system.files import plain_file, write_atomically
from ganeti.system.ssconf import ssconf


def make_secrets(options: Mapping[str, Any]) -> list[str]:
    """Replace the files that *options* (flags and files of the command, by field) ask for; gives their names.

    Raises `PrerequisiteError` before anything is written.
    """
    machine = Machine.here()
    files = [*_remote_api(options, machine), *_spice(options, machine), *_shared_secrets(options, machine)]
    for path, text, mode in files:
        try:
            write_atomically(path, text.encode(), mode=mode, owner=owner_for(path, machine.paths))
        except OSError as err:
            raise GanetiError(f"{path} could not be written: {err.strerror}; run the command again") from err
    return [path for path, _, _ in files]


def remote_api_names(paths: Paths, hostname: str) -> list[str]:
    """What clients call the remote API: all nodes show one certificate, and the cluster's name and address move."""
    known = [ssconf(paths, "cluster_name"), hostname, ssconf(paths, "master_ip")]
    return [name for name in known if name]


_File = tuple[str, str, int]
"""Path, content, mode."""


def _remote_api(options: Mapping[str, Any], machine: Machine) -> list[_File]:
    given, fresh = options.get("rapi_certificate_file"), options.get("new_rapi_certificate")
    _only_one(given, fresh, "--rapi-certificate", "--new-rapi-certificate")
    if not given and not fresh:
        return []
    if given:
        text = _certificate(given, "--rapi-certificate")
    else:
        text = create_self_signed(*remote_api_names(machine.paths, machine.hostname))
    return [(f"{machine.paths.data_dir}/rapi.pem", text, 0o440)]


def _spice(options: Mapping[str, Any], machine: Machine) -> list[_File]:
    given, authority = options.get("spice_certificate_file"), options.get("spice_ca_file")
    fresh = options.get("new_spice_certificate")
    _only_one(given or authority, fresh, "--spice-certificate", "--new-spice-certificate")
    if bool(given) != bool(authority):
        raise PrerequisiteError(
            "--spice-certificate and --spice-ca-certificate belong together: give both, or none", WRONG_INPUT
        )
    if fresh:
        text = create_self_signed(machine.hostname)
        trusted = first_certificate(text)
    elif given and authority:
        text = _certificate(given, "--spice-certificate")
        authorities = _read(authority, "--spice-ca-certificate")
        if first_certificate(authorities) is None:
            raise PrerequisiteError(f"--spice-ca-certificate: {authority} holds no certificate", WRONG_INPUT)
        if (trusted := trusted_for(text, authorities)) is None:
            raise PrerequisiteError(
                f"--spice-ca-certificate: {authority} has not signed the certificate in {given}: name the authority "
                "that has, and append the certificates between the two to the latter",
                WRONG_INPUT,
            )
    else:
        return []
    directory = machine.paths.data_dir
    return [(f"{directory}/spice.pem", text, 0o440), (f"{directory}/spice-ca.pem", trusted or "", 0o440)]


def _shared_secrets(options: Mapping[str, Any], machine: Machine) -> list[_File]:
    files = []
    if options.get("new_confd_hmac_key"):
        files.append((machine.paths.hmac_key, f"{secrets.token_hex(HMAC_KEY_BYTES)}\n", 0o440))
    given, fresh = options.get("cluster_domain_secret_file"), options.get("new_cluster_domain_secret")
    _only_one(given, fresh, "--cluster-domain-secret", "--new-cluster-domain-secret")
    if given:
        text = _read(given, "--cluster-domain-secret").strip()
        if not text or len(text.splitlines()) != 1:
            raise PrerequisiteError(f"--cluster-domain-secret: {given} must hold one line, the secret", WRONG_INPUT)
        files.append((machine.paths.cluster_domain_secret, f"{text}\n", 0o600))
    elif fresh:
        text = base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
        files.append((machine.paths.cluster_domain_secret, f"{text}\n", 0o600))
    return files


def _only_one(given: Any, fresh: Any, option: str, new: str) -> None:
    if given and fresh:
        raise PrerequisiteError(f"{new} makes what {option} names: give one of them", WRONG_INPUT)


def _certificate(path: str, option: str) -> str:
    """The text of a file with a certificate and its key."""
    text = _read(path, option)
    if not has_fitting_key(text):
        raise PrerequisiteError(
            f"{option}: {path} must hold a certificate and the key that belongs to it, without a passphrase",
            WRONG_INPUT,
        )
    return text


def _read(path: str, option: str) -> str:
    try:
        with open(path, encoding="ascii", opener=plain_file) as file:
            return file.read()
    except OSError as err:
        raise PrerequisiteError(f"{option}: {path} cannot be read: {err.strerror}", WRONG_INPUT) from err
    except UnicodeDecodeError as err:
        raise PrerequisiteError(f"{option}: {path} is no text of ASCII characters", WRONG_INPUT) from err
