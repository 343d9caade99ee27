# SPDX-License-Identifier: BSD-2-Clause
"""`query-config` and `confd-client`: questions to ConfD from the command line (command line, section 3)."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from ganeti.base.addresses import split_host_and_port
from ganeti.base.errors import GanetiError, TransportError
from ganeti.base.paths import Paths
from ganeti.calls.confd_client import ConfdClient, SilentError
from ganeti.system.files import read_if_there
from ganeti.system.ssconf import ssconf_words
from ganeti.wire.confd import PORT, Kind

QUERY, CLIENT = "query-config", "confd-client"


def main(arguments: Sequence[str] | None = None) -> int:
    name = os.path.basename(sys.argv[0]) if arguments is None else ""
    return confd_client(arguments) if name == CLIENT else query_config(arguments)


def query_config(arguments: Sequence[str] | None = None) -> int:
    """Print values of the configuration, one JSON value a line, by their paths (``/cluster/cluster_name``)."""
    parser = _parser(QUERY, "Print values of the configuration, as a master candidate knows them.")
    parser.add_argument("path", nargs="+", help="path into config.data, such as /cluster/cluster_name")
    options = parser.parse_args(arguments)
    status = 0
    try:
        client = _client(options)
        for path in options.path:
            found = client.ask(Kind.CONFIG, path, client.deadline_s())
            if found is None:
                print(f"{QUERY}: the configuration has no '{path}'", file=sys.stderr)
                status = 1
            else:
                print(json.dumps(found))
    except (GanetiError, SilentError, OSError) as err:
        print(f"{QUERY}: {err}", file=sys.stderr)
        return 1
    return status


def confd_client(arguments: Sequence[str] | None = None) -> int:
    """Ask everything that can be asked without a name, and say how long each answer took."""
    parser = _parser(CLIENT, "Try out ConfD: ask each question, and say how long its answer took.")
    parser.add_argument("-r", "--requests", type=int, default=1, help="how often each question is asked (1)")
    options = parser.parse_args(arguments)
    if options.requests < 1:
        print(f"{CLIENT}: --requests takes a number from 1 up", file=sys.stderr)
        return 1
    try:
        client = _client(options)
        for kind, query in _questions(client):
            begun_s = time.monotonic()
            for _ in range(options.requests):
                found = client.ask(kind, query, client.deadline_s())
            each_ms = (time.monotonic() - begun_s) * 1000 / options.requests
            asked = f"{kind.name.lower()}{'' if query is None else f' {json.dumps(query)}'}"
            print(f"{asked}: {json.dumps(found)} ({each_ms:.1f} ms)")
    except (GanetiError, SilentError, OSError) as err:
        print(f"{CLIENT}: {err}", file=sys.stderr)
        return 1
    return 0


def _questions(client: ConfdClient) -> list[tuple[Kind, Any]]:
    master = client.ask(Kind.MASTER, None, client.deadline_s())
    return [
        (Kind.PING, None),
        (Kind.MASTER, None),
        (Kind.NODE_ROLE, master),
        (Kind.NODE_ADDRESSES, None),
        (Kind.CANDIDATE_ADDRESSES, None),
        (Kind.INSTANCE_ADDRESSES, None),
        (Kind.COLLECTORS, None),
        (Kind.CONFIG, "/cluster/cluster_name"),
    ]


def _parser(name: str, purpose: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=name, description=purpose)
    parser.add_argument("--hmac", metavar="FILE", help="file with the cluster's key (/var/lib/ganeti/hmac.key)")
    parser.add_argument("-a", "--address", help="address of a ConfD; otherwise those of the master candidates")
    return parser


def _client(options: argparse.Namespace) -> ConfdClient:
    """Raises `TransportError` where there is no key, or nobody to be asked."""
    paths = Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/"))
    key_file = options.hmac or paths.hmac_key
    key = read_if_there(key_file)
    if not key:
        raise TransportError(f"{key_file} is missing or empty: name the file of the cluster's key with --hmac")
    return ConfdClient(_places(options.address, paths), key)


def _places(address: str | None, paths: Paths) -> list[tuple[str, int]]:
    if address is not None:
        try:
            return [split_host_and_port(address, PORT)]
        except ValueError as err:
            raise TransportError(f"'{address}' is no address of a ConfD ({err})") from err
    addresses = ssconf_words(paths, "master_candidates_ips")
    if not addresses:
        raise TransportError("No master candidate is known on this machine: name the address of one with --address")
    return [(found, PORT) for found in addresses]


if __name__ == "__main__":
    sys.exit(main())
