# SPDX-License-Identifier: BSD-2-Clause
"""`socket` and `select` of a simulated process: sockets are local, machines meet in `network` with requests."""

import errno
import os as real_os
import select as real_select
import socket as real
from types import ModuleType
from typing import Any

from ganeti_simulation.facades.arguments import absolute, description_of
from ganeti_simulation.system.descriptors import Description, Listener, SocketEnd, make_socket_pair
from ganeti_simulation.system.kernel import Running, wait_for
from ganeti_simulation.system.machine import here


class Socket:
    """A Unix socket. Others may be made, and reach nobody."""

    def __init__(self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None) -> None:
        self.family = real.AddressFamily(family) if family >= 0 else real.AF_UNIX
        self.type = real.SocketKind(type & ~(real.SOCK_NONBLOCK | real.SOCK_CLOEXEC)) if type >= 0 else real.SOCK_STREAM
        self.proto = 0
        self._timeout: float | None = None
        self._name = ""
        process = Running.process()
        if fileno is None:
            fileno = process.install(Description())
        self._number = fileno

    @property
    def _description(self) -> Description:
        return description_of(self._number)

    @property
    def _end(self) -> SocketEnd:
        found = self._description
        if not isinstance(found, SocketEnd):
            raise OSError(errno.ENOTCONN, real_os.strerror(errno.ENOTCONN))
        return found

    def fileno(self) -> int:
        return self._number

    def detach(self) -> int:
        number, self._number = self._number, -1
        return number

    def close(self) -> None:
        number, self._number = self._number, -1
        process = Running.process()
        if number in process.descriptors:
            Running.kernel.close(process, number)

    def __enter__(self) -> "Socket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def setblocking(self, flag: bool) -> None:
        self._timeout = None if flag else 0.0

    def settimeout(self, timeout: float | None) -> None:
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        return self._timeout

    def setsockopt(self, *_: Any) -> None:
        """Nothing to set."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> Any:
        return b"\0" * size if size else 0

    def getsockname(self) -> Any:
        return self._name

    def getpeername(self) -> Any:
        return ""

    def shutdown(self, how: int) -> None:
        if how != real.SHUT_RD and isinstance(self._description, SocketEnd):
            other = self._end.other
            if other is not None:
                other.other = None
                other.changed()

    def _replace(self, description: Description) -> None:
        process = Running.process()
        Running.kernel.close(process, self._number)
        process.install(description, self._number)

    def bind(self, address: Any) -> None:
        if self.family != real.AF_UNIX:
            raise OSError(errno.EADDRNOTAVAIL, real_os.strerror(errno.EADDRNOTAVAIL))
        listener = Listener()
        Running.kernel.system_call()
        here().disk.mknod_socket(absolute(address), listener)
        self._name = address
        self._replace(listener)

    def listen(self, backlog: int = 0) -> None:
        listener = self._description
        assert isinstance(listener, Listener)
        listener.listening = True

    def connect(self, address: Any) -> None:
        if self.family != real.AF_UNIX:
            raise OSError(errno.ENETUNREACH, real_os.strerror(errno.ENETUNREACH))
        listener = here().disk.socket_at(absolute(address))
        if not isinstance(listener, Listener):
            raise ConnectionRefusedError(errno.ECONNREFUSED, real_os.strerror(errno.ECONNREFUSED))
        self._replace(listener.connect())

    def accept(self) -> tuple["Socket", Any]:
        listener = self._description
        assert isinstance(listener, Listener)
        if not listener.readable and self._timeout != 0.0:
            wait_for(Running.kernel, listener, to_write=False, timeout_s=self._timeout)
        return Socket(real.AF_UNIX, real.SOCK_STREAM, fileno=Running.process().install(listener.accept())), ""

    def _wait(self, *, to_write: bool) -> SocketEnd:
        end = self._end
        ready = end.writable if to_write else end.readable
        if ready or self._timeout == 0.0:
            return end
        if not wait_for(Running.kernel, end, to_write=to_write, timeout_s=self._timeout):
            raise TimeoutError("timed out")
        return end

    def recv(self, count: int, flags: int = 0) -> bytes:
        return self._wait(to_write=False).receive(count)[0]

    def recv_into(self, buffer: Any, count: int = 0, flags: int = 0) -> int:
        data = self.recv(count or len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        Running.kernel.system_call()
        return self._wait(to_write=True).send(bytes(data))

    def sendall(self, data: Any, flags: int = 0) -> None:
        left = bytes(data)
        while left:
            left = left[self.send(left) :]


def socketpair(family: int = real.AF_UNIX, type: int = real.SOCK_STREAM, proto: int = 0) -> tuple[Socket, Socket]:
    process = Running.process()
    one, two = make_socket_pair(packets=type == real.SOCK_SEQPACKET)
    return (
        Socket(family, type, fileno=process.install(one)),
        Socket(family, type, fileno=process.install(two)),
    )


def send_fds(sock: Socket, buffers: Any, fds: Any, flags: int = 0, address: Any = None) -> int:
    Running.kernel.system_call()
    passed = [description_of(number) for number in fds]
    return sock._wait(to_write=True).send(b"".join(buffers), passed)


def recv_fds(sock: Socket, bufsize: int, maxfds: int, flags: int = 0) -> tuple[bytes, list[int], int, Any]:
    process = Running.process()
    data, passed = sock._wait(to_write=False).receive(bufsize)
    numbers = []
    for description in passed:
        numbers.append(process.install(description))
        description.users -= 1
    return data, numbers, 0, None


def getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    machine = here()
    address = machine.network.address_of(host)
    if address is None:
        raise real.gaierror(real.EAI_NONAME, "Name or service not known")
    return [(real.AF_INET, type or real.SOCK_STREAM, 6, str(host), (address, int(port or 0)))]


class Poll:
    """`select.poll`, for the spawner."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def register(self, fd: Any, eventmask: int = real_select.POLLIN) -> None:
        self._numbers[fd if isinstance(fd, int) else fd.fileno()] = eventmask

    def unregister(self, fd: Any) -> None:
        del self._numbers[fd if isinstance(fd, int) else fd.fileno()]

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        kernel, process = Running.kernel, Running.process()
        thread = Running.thread()
        descriptions = {number: process.descriptors[number] for number in self._numbers}
        for description in descriptions.values():
            description.watchers[id(thread)] = lambda: kernel.wake(thread)
        until_s = None if timeout is None else kernel.now_s + timeout / 1000
        try:
            while True:
                kernel.deliver_signals()
                ready = [(number, real_select.POLLIN) for number, each in descriptions.items() if each.readable]
                if ready or (until_s is not None and kernel.now_s >= until_s):
                    return ready
                kernel.block(None if until_s is None else until_s - kernel.now_s)
        finally:
            for description in descriptions.values():
                description.watchers.pop(id(thread), None)


class SocketFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("socket")
        for name in dir(real):
            if name.isupper() or name in ("AddressFamily", "SocketKind", "gaierror", "herror", "timeout", "error"):
                setattr(self, name, getattr(real, name))
        for name in ("inet_aton", "inet_ntoa", "inet_pton", "inet_ntop", "htons", "ntohs", "htonl", "ntohl"):
            setattr(self, name, getattr(real, name))
        self.socket = Socket
        self.socketpair = socketpair
        self.send_fds = send_fds
        self.recv_fds = recv_fds
        self.getaddrinfo = getaddrinfo
        self.gethostname = lambda: Running.process().machine.name
        self.getfqdn = lambda name="": name or Running.process().machine.name

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the simulated socket has no {name}")


class SelectFacade(ModuleType):
    def __init__(self) -> None:
        super().__init__("select")
        self.poll = Poll
        self.POLLIN = real_select.POLLIN
        self.POLLHUP = real_select.POLLHUP
        self.error = OSError
