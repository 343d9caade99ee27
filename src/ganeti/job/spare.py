# SPDX-License-Identifier: BSD-2-Clause
"""The spawner's end of a process that was forked in advance and waits for one job."""

import socket


class Spare:
    """One process that takes one job. While it waits it holds nothing of the cluster: no file, lock or connection.

    Whatever the spawner learns later is unknown to it: then the spawner closes it, and it ends.
    """

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self._control = control

    def give(self, request: bytes, descriptor: int) -> bool:
        """Pass on a request of LuxiD and the job's socket; False if the process is gone. Afterwards it is no spare.

        A process that dies before it reads the request closes the job's socket, as one does that was forked for it.
        """
        try:
            socket.send_fds(self._control, [request], [descriptor])
        except OSError:
            return False
        finally:
            self.close()
        return True

    def close(self) -> None:
        self._control.close()
