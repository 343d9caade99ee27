# SPDX-License-Identifier: BSD-2-Clause
"""`backup-chain DIRECTORY`: serve the disks of a chain of backups on a Unix socket, until it is ended.

NodeD starts it, see `ganeti.node.backups.served`.
"""

import argparse
import os
import signal
import socket
import sys
import threading

import msgspec

from ganeti.base.errors import UNREADABLE_JSON, GanetiError
from ganeti.base.paths import Paths
from ganeti.node.backups import nbd_server
from ganeti.node.backups.chain_reader import ChainReader
from ganeti.node.backups.places import store_of
from ganeti.node.backups.served import LOCK, PID, SOCKET, TASK, ServedChain
from ganeti.system.livelock import LiveLock
from ganeti.wire.sealing import Sealing


def main() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parser = argparse.ArgumentParser(
        prog="backup-chain", description="Serve the disks of a chain of backups on a Unix socket, until it is ended."
    )
    parser.add_argument("directory", help="where ganeti-noded, which starts this, has put the task")
    directory = parser.parse_args().directory
    try:
        return _serve(directory)
    except (GanetiError, OSError, *UNREADABLE_JSON) as err:
        print(f"backup-chain: {err}", file=sys.stderr)
        return 1


def _serve(directory: str) -> int:
    lock = LiveLock(f"{directory}/{LOCK}")
    with open(f"{directory}/{PID}", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    with open(f"{directory}/{TASK}", "rb") as task_file:
        task = msgspec.json.decode(task_file.read(), type=ServedChain)
    os.unlink(task_file.name)  # it holds the key
    store = store_of(Paths(os.environ.get("GANETI_ROOTDIR", "").rstrip("/")))
    reader = ChainReader(store, Sealing(task.key, task.instance_uuid), task.instance_uuid, task.chain, task.sizes)
    os.umask(0o177)
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(directory)  # the path of a socket has few letters
        listener.bind(f".{SOCKET}")
        listener.listen()
        os.rename(f".{SOCKET}", SOCKET)
        while lock.fileno() >= 0:
            connection, _ = listener.accept()
            threading.Thread(target=nbd_server.serve, args=(connection, reader), daemon=True).start()
    return 0


if __name__ == "__main__":
    sys.exit(main())
