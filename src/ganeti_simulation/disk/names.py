# SPDX-License-Identifier: BSD-2-Clause
"""The names of a simulated disk: how a path is followed, and the system calls that make, move and remove names."""

import errno
import os
import stat
from typing import Any

from ganeti_simulation.disk.faults import Faults, refused
from ganeti_simulation.disk.inodes import Change, Directory, File, Holder, Inode, Special, SymbolicLink
from ganeti_simulation.disk.open_file import OpenFile

_CREATED, _ALONE, _NAMELESS = os.O_CREAT, os.O_EXCL, os.O_TMPFILE
_UNFOLLOWED, _REMARKABLE = os.O_NOFOLLOW, os.O_EXCL | os.O_TRUNC | os.O_DIRECTORY
_NAME_BYTES = 255
_PATH_BYTES = 4096
_SURELY_SHORT = 63  # characters, four bytes each at most
_NO_NAMES = ("", ".", "..")
_LINKS_FOLLOWED = 40
_PLACES_KEPT = 4096
Place = tuple[Directory, str, Inode | None]
"""Where a path leads: the directory, the name in it, and what is there. The name is "." for a directory that was not
reached by its name."""


class Shape:
    """How often a directory has gone from where it was, on any disk: what is remembered of paths is void then."""

    changes = 0


class Names:
    """Every method takes absolute paths and raises `OSError` as Linux does. Nobody is refused for his rights: daemons
    run as root."""

    root: Directory
    faults: Faults
    places: dict[str, tuple[Directory, str, int]]
    """Where paths without symbolic links led, as of which change of `Shape`."""

    def find_name(self, path: str) -> Place:
        """As `find`, for a call that makes, moves or removes the name itself: a slash at its end means nothing yet."""
        return self.find(path, False) if path[-1:] != "/" else self._find_slowly(path, False, naming=True)

    def find(self, path: str, follow: bool = True) -> Place:
        """Follow *path*; a symbolic link at its end is followed if asked. Raises if a directory on the way is
        missing."""
        known = self.places.get(path)
        if known is not None and known[2] == Shape.changes:
            node: Any = known[0]
            name = known[1]
        else:
            parts = path.split("/")
            name = parts.pop()
            node = self.root
            try:
                for part in parts[1:]:
                    node = node.entries[part]
                    if node.covered is not None:
                        node = node.covered.root
                node.entries  # noqa: B018 - asks whether it is a directory
            except (KeyError, AttributeError):
                return self._find_slowly(path, follow)
            if name in _NO_NAMES or len(name) > _SURELY_SHORT or path[0] != "/":
                return self._find_slowly(path, follow)
            if len(self.places) >= _PLACES_KEPT:
                self.places.clear()
            self.places[path] = node, name, Shape.changes
        found = node.entries.get(name)
        if found is not None:
            if follow and type(found) is SymbolicLink:
                return self._find_slowly(path, follow)
            if found.covered is not None:
                found = found.covered.root
        return node, name, found

    def _find_slowly(self, path: str, follow: bool, naming: bool = False) -> Place:
        if not path:
            raise refused(errno.ENOENT, path)
        if len(os.fsencode(path)) >= _PATH_BYTES:
            raise refused(errno.ENAMETOOLONG, path)
        if not path.startswith("/"):
            raise ValueError(f"a simulated disk knows no current directory: {path}")
        stripped = path.rstrip("/")
        must_be_directory = stripped != path and not naming
        follow = follow or must_be_directory
        trail = [self.root]
        pending = stripped.split("/")[::-1]
        links = 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                trail[1:] = trail[1:-1]
                continue
            if len(os.fsencode(part)) > _NAME_BYTES:
                raise refused(errno.ENAMETOOLONG, path)
            child = trail[-1].entries.get(part)
            if child is None:
                if pending:
                    raise refused(errno.ENOENT, path)
                return trail[-1], part, None
            if child.covered is not None:
                child = child.covered.root
            if type(child) is SymbolicLink and (follow or pending):
                links += 1
                if links > _LINKS_FOLLOWED:
                    raise refused(errno.ELOOP, path)
                if child.target.startswith("/"):
                    del trail[1:]
                pending.extend(child.target.split("/")[::-1])
                continue
            if type(child) is Directory and pending:
                trail.append(child)
                continue
            if type(child) is not Directory and (pending or must_be_directory):
                raise refused(errno.ENOTDIR, path)
            return trail[-1], part, child
        return trail[-2] if len(trail) > 1 else self.root, ".", trail[-1]

    def there(self, path: str, follow: bool = True) -> Any:
        """The inode at *path*."""
        found = self.find(path, follow)[2]
        if found is None:
            raise refused(errno.ENOENT, path)
        return found

    def look(self, path: str) -> Inode | None:
        """The inode at *path*, or None if there is none that can be reached."""
        try:
            return self.find(path)[2]
        except OSError:
            return None

    def open(self, path: str, flags: int, mode: int = 0o777, now_s: float | None = None) -> OpenFile:
        """Open or create; *mode* is already without the bits of the umask. `BlockingIOError` with EAGAIN: somebody
        holds a lease on the file; whoever did not ask for O_NONBLOCK waits with `when_given_back` of `lease_holder`."""
        if now_s is not None:
            self.root.disk.time_s = now_s
        if self.faults:
            self.faults.meet("open", path)
        creates = flags & _CREATED
        if flags & _NAMELESS == _NAMELESS:
            return self._open_nameless(path, flags, mode)
        if creates and path[-1:] == "/":
            self.find_name(path)
            raise refused(errno.EISDIR, path)
        follow = not (flags & _UNFOLLOWED or (creates and flags & _ALONE))
        directory, name, inode = self.find(path, follow)
        if inode is None:
            if not creates:
                raise refused(errno.ENOENT, path)
            if flags & os.O_DIRECTORY:
                raise refused(errno.EINVAL, path)
            inode = File(directory.disk, stat.S_IMODE(mode))
            self._place(directory, name, inode, path)
        elif type(inode) is not File or flags & _REMARKABLE or inode.lease is not None:
            self._check_open(inode, flags, path)
        return OpenFile(self.root.disk, inode, flags, path)

    def _check_open(self, inode: Inode, flags: int, path: str) -> None:
        changing = flags & (os.O_WRONLY | os.O_RDWR) or flags & os.O_TRUNC
        if flags & os.O_CREAT and flags & os.O_EXCL:
            raise refused(errno.EEXIST, path)
        if type(inode) is Directory:
            if flags & os.O_CREAT or changing:
                raise refused(errno.EISDIR, path)
            return
        if type(inode) is SymbolicLink:
            raise refused(errno.ENOTDIR if flags & os.O_DIRECTORY else errno.ELOOP, path)
        if flags & os.O_DIRECTORY:
            raise refused(errno.ENOTDIR, path)
        if stat.S_ISSOCK(inode.mode) and not flags & os.O_PATH:
            raise refused(errno.ENXIO, path)
        if type(inode) is File and not flags & os.O_PATH:
            if inode.lease is not None:
                raise refused(errno.EAGAIN, path)
            if flags & os.O_TRUNC and inode.size():
                inode.truncate(0)

    def _open_nameless(self, path: str, flags: int, mode: int) -> OpenFile:
        directory = self.there(path)
        if type(directory) is not Directory:
            raise refused(errno.ENOTDIR, path)
        if not flags & (os.O_WRONLY | os.O_RDWR):
            raise refused(errno.EINVAL, path)
        return OpenFile(self.root.disk, File(directory.disk, stat.S_IMODE(mode)), flags & ~os.O_TMPFILE, path)

    def lease_holder(self, path: str) -> Holder | None:
        """Who has the lease that keeps others from opening *path*."""
        inode = self.look(path)
        return inode.lease if type(inode) is File else None

    def _place(self, directory: Directory, name: str, inode: Inode, *paths: str) -> None:
        """Give a new inode its first name, or an old one another."""
        disk = directory.disk
        if self.faults:
            self.faults.meet("create", paths[-1])
        if disk.is_limited and disk.free_blocks() <= 0:
            raise refused(errno.ENOSPC, *paths)
        inode.links += 1
        disk.record(Change((directory, name, None, inode)))
        directory.entries[name] = inode
        directory.touch()

    def _new(self, path: str) -> tuple[Directory, str]:
        """Where something new shall be; what has a name already is not followed."""
        directory, name, found = self.find_name(path)
        if found is not None:
            raise refused(errno.EEXIST, path)
        return directory, name

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        directory, name = self._new(path)
        made = Directory(directory.disk, stat.S_IMODE(mode))
        made.links = 1
        self._place(directory, name, made, path)
        directory.links += 1

    def symlink(self, target: str, path: str) -> None:
        if not target:
            raise refused(errno.ENOENT, target, path)
        try:
            directory, name = self._new(path)
        except OSError as err:
            raise refused(err.errno or 0, target, path) from None
        if path.endswith("/"):
            raise refused(errno.ENOENT, target, path)
        self._place(directory, name, SymbolicLink(directory.disk, target), target, path)

    def mknod_socket(self, path: str, token: Any, mode: int = 0o755) -> None:
        """A socket's name, as `bind` makes it; *token* is what `socket_at` gives. EADDRINUSE is the caller's word for
        EEXIST."""
        self.make_special(path, stat.S_IFSOCK | stat.S_IMODE(mode), token)

    def make_special(self, path: str, mode: int, token: Any) -> None:
        """A socket, a device, or a file that is made up."""
        directory, name = self._new(path)
        self._place(directory, name, Special(directory.disk, mode, token), path)

    def socket_at(self, path: str) -> Any:
        """The token of the socket at *path*; ECONNREFUSED if it is no socket, as `connect` says."""
        found = self.there(path)
        if not stat.S_ISSOCK(found.mode):
            raise refused(errno.ECONNREFUSED, path)
        return found.token

    def link(self, source: str, path: str, follow: bool = False) -> None:
        try:
            inode = self.there(source, follow)
            directory, name, found = self.find_name(path)
        except OSError as err:
            raise refused(err.errno or 0, source, path) from None
        if found is not None:
            raise refused(errno.EEXIST, source, path)
        if path.endswith("/"):
            raise refused(errno.ENOENT, source, path)
        if inode.disk is not directory.disk:
            raise refused(errno.EXDEV, source, path)
        if type(inode) is Directory:
            raise refused(errno.EPERM, source, path)
        self._place(directory, name, inode, source, path)
        inode.changed_ns = inode.disk.now_ns()

    def unlink(self, path: str) -> None:
        directory, name, found = self.find_name(path)
        if found is None:
            raise refused(errno.ENOENT, path)
        if type(found) is Directory:
            raise refused(errno.EISDIR, path)
        if path[-1] == "/":
            raise refused(errno.ENOTDIR, path)
        if self.faults:
            self.faults.meet("unlink", path)
        directory.disk.record(Change((directory, name, found, None)))
        del directory.entries[name]
        directory.touch()
        found.links -= 1
        found.changed_ns = directory.changed_ns

    def rmdir(self, path: str) -> None:
        directory, name, found = self.find_name(path)
        if found is None:
            raise refused(errno.ENOENT, path)
        if type(found) is not Directory:
            raise refused(errno.ENOTDIR, path)
        last = path.rstrip("/").rsplit("/", 1)[-1]
        if last in ("", ".", ".."):
            raise refused({"": errno.EBUSY, ".": errno.EINVAL, "..": errno.ENOTEMPTY}[last], path)
        if directory.entries.get(name) is not found:
            raise refused(errno.EBUSY, path)
        if found.entries:
            raise refused(errno.ENOTEMPTY, path)
        if self.faults:
            self.faults.meet("unlink", path)
        directory.disk.record(Change((directory, name, found, None)))
        del directory.entries[name]
        directory.touch()
        directory.links -= 1
        found.links = 0
        Shape.changes += 1

    def rename(self, source: str, path: str) -> None:
        """Atomic, also for who reads after a loss of power. Watchers of the target's directory are told."""
        try:
            old_directory, old_name, inode = self.find_name(source)
            directory, name, replaced = self.find_name(path)
        except OSError as err:
            raise refused(err.errno or 0, source, path) from None
        if {source.rstrip("/").rsplit("/", 1)[-1], path.rstrip("/").rsplit("/", 1)[-1]} & {"", ".", ".."}:
            raise refused(errno.EBUSY, source, path)
        if inode is None:
            raise refused(errno.ENOENT, source, path)
        if directory.disk is not old_directory.disk:
            raise refused(errno.EXDEV, source, path)
        self._check_rename(inode, old_directory, replaced, directory, (source, path))
        if replaced is inode:
            return
        if directory.entries.get(name) is not replaced or old_directory.entries.get(old_name) is not inode:
            raise refused(errno.EBUSY, source, path)
        if self.faults:
            self.faults.meet("rename", path)
        change = Change((old_directory, old_name, inode, None), (directory, name, replaced, inode))
        directory.disk.record(change)
        del old_directory.entries[old_name]
        directory.entries[name] = inode
        old_directory.touch()
        directory.touch()
        if replaced is not None:
            replaced.links -= 2 if type(replaced) is Directory else 1
            directory.links -= type(replaced) is Directory
        if type(inode) is Directory:
            Shape.changes += 1
            inode.placed = change if directory.unsynced is not None else None
            old_directory.links -= 1
            directory.links += 1
        inode.changed_ns = directory.changed_ns
        for watcher in directory.watchers.copy():
            watcher(name)

    @staticmethod
    def _check_rename(
        inode: Inode, old_directory: Directory, replaced: Inode | None, directory: Directory, paths: tuple[str, str]
    ) -> None:
        if type(inode) is Directory:
            if _contains(inode, directory):
                raise refused(errno.EINVAL, *paths)
        elif paths[0].endswith("/") or paths[1].endswith("/"):
            raise refused(errno.ENOTDIR, *paths)
        if type(replaced) is Directory and replaced is not inode:
            if _contains(replaced, old_directory):
                raise refused(errno.ENOTEMPTY, *paths)
            if type(inode) is not Directory:
                raise refused(errno.EISDIR, *paths)
            if replaced.entries:
                raise refused(errno.ENOTEMPTY, *paths)
        elif replaced is not None and replaced is not inode and type(inode) is Directory:
            raise refused(errno.ENOTDIR, *paths)

    def readlink(self, path: str) -> str:
        found = self.there(path, follow=False)
        if type(found) is not SymbolicLink:
            raise refused(errno.EINVAL, path)
        return found.target

    def listdir(self, path: str) -> list[str]:
        """Names in the order they came."""
        found = self.there(path)
        if type(found) is not Directory:
            raise refused(errno.ENOTDIR, path)
        if self.faults:
            self.faults.meet("read", path)
        return list(found.entries)

    def stat(self, path: str) -> os.stat_result:
        status: os.stat_result = self.there(path).status()
        return status

    def lstat(self, path: str) -> os.stat_result:
        status: os.stat_result = self.there(path, follow=False).status()
        return status


def _contains(directory: Directory, sought: Directory) -> bool:
    if directory is sought:
        return True
    return any(_contains(child, sought) for child in directory.entries.values() if type(child) is Directory)
