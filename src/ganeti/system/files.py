# SPDX-License-Identifier: BSD-2-Clause
"""Files that are either the old or the new, never half; descriptors that scripts are given."""

import contextlib
import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Iterator

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_atomically(
    path: str,
    data: bytes,
    *,
    mode: int = 0o640,
    owner: tuple[int, int] | None = None,
    durable: bool = True,
) -> None:
    """Replace *path* by *data*: written beside it, synced, renamed, directory synced.

    *owner* is (user id, group id), -1 for "as it is". Without *durable* nothing is synced: the file survives the
    death of this process, not that of the machine. Raises `OSError` naming *path*; the old file is then untouched.
    """
    with replaced(path, mode=mode, owner=owner, durable=durable) as descriptor:
        write_all(descriptor, data)


def plain_file(path: str, flags: int, *, mode: int = 0o600) -> int:
    """An *opener* for `open`: what is no file is refused at once. Raises `OSError`.

    A FIFO would keep its reader waiting, for ever, for somebody who writes into it.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    except OSError as err:
        if err.errno == errno.ENXIO:  # a socket, or a FIFO to be written to
            _check_kind(path, os.stat(path).st_mode)
        raise
    try:
        _check_kind(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_plain(path: str) -> None:
    """For what a library opens by its name: raises `OSError` where something else than a file is there."""
    with contextlib.suppress(FileNotFoundError):
        _check_kind(path, os.stat(path).st_mode)


_KINDS = {
    stat.S_IFIFO: (errno.ENXIO, "a FIFO"),
    stat.S_IFSOCK: (errno.ENXIO, "a socket"),
    stat.S_IFCHR: (errno.ENXIO, "a device"),
    stat.S_IFBLK: (errno.ENXIO, "a device"),
    stat.S_IFDIR: (errno.EISDIR, "a directory"),
}


def _check_kind(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    number, kind = _KINDS[stat.S_IFMT(mode)]
    raise OSError(number, f"It is {kind}, not a file: move it away", path)


def write_over(path: str, data: bytes, *, mode: int = 0o640) -> None:
    """Write over the few bytes of a file in place, unsynced; it is made where there is none. Raises `OSError`.

    For what is read again as it was or as it is, and is never missed where the power is lost meanwhile. A file that
    takes the old one's place costs several times as much: ext4 looks for an inode that nobody has given up lately.
    """
    try:
        descriptor = plain_file(path, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        write_atomically(path, data, mode=mode, durable=False)
        return
    try:
        os.pwrite(descriptor, data, 0)
        if os.fstat(descriptor).st_size > len(data):
            os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replaced(
    path: str, *, mode: int = 0o640, owner: tuple[int, int] | None = None, durable: bool = True
) -> Iterator[int]:
    """The same for content that comes in pieces: what is written to the descriptor becomes *path* at the end.

    An error in the block leaves the old file.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.new")
    is_made = False
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        is_made = True
        try:
            yield descriptor
            os.fchmod(descriptor, mode)
            if owner is not None:
                os.fchown(descriptor, *owner)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException as err:
        if is_made:
            os.unlink(temporary)
        if isinstance(err, OSError) and err.filename in (None, temporary):
            # A write does not say which file it was of, and the other name means nothing to anybody.
            err.filename = path
        raise
    if durable:
        sync_directory(directory)


def open_among_others(path: str, flags: int, mode: int) -> int:
    """Open, or make, a file of one's own in a directory where others may write, too; gives the descriptor.

    A link is not followed: who put it there could have root write elsewhere. A file that is there is opened without
    ``O_CREAT``, which the kernel refuses for another user's file in a directory with the sticky bit
    (fs.protected_regular), root or not. Raises `OSError`.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                return plain_file(path, flags)
            with contextlib.suppress(FileExistsError):
                return os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except OSError as err:
        if err.errno == errno.ELOOP:
            raise OSError(err.errno, "It is a symbolic link, which is not followed: remove it", path) from err
        raise


def open_lock(path: str, mode: int = 0o640) -> int:
    """Open, or make, a lock file of one's own in a directory where anybody may write (``/run/lock``).

    Another user who has made something by that name could hold the lock for ever, keep the kernel from opening it
    (fs.protected_regular), or have root make a file elsewhere: it is put aside. Raises `OSError`.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        with contextlib.suppress(FileExistsError):
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
        try:
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                descriptor = os.open(path, flags)
                if os.path.samestat(os.fstat(descriptor), found):
                    return descriptor
                os.close(descriptor)
            else:
                _put_aside(path)
        except FileNotFoundError:
            continue
        except OSError as err:
            if err.errno != errno.ELOOP:  # a link that has come meanwhile
                raise


def _put_aside(path: str) -> None:
    """A directory may be full: it keeps another name."""
    aside = f"{path}.{secrets.token_hex(4)}.foreign"
    os.rename(path, aside)
    with contextlib.suppress(OSError):
        os.unlink(aside)
    with contextlib.suppress(OSError):
        os.rmdir(aside)


def sync_directory(directory: str) -> None:
    """Make names created, renamed or removed in *directory* durable."""
    descriptor = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(one: str, other: str) -> bool:
    """Exchange the names of two files or directories at one moment; False where the file system cannot do that.

    Raises `OSError`.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # a C library may have none
    if rename is None:
        return False
    done: int = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    if done == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), one, None, other)


def sync_file(path: str) -> None:
    """Make the content of a file durable as it is now. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_if_there(path: str) -> bytes | None:
    """Give the content, or None if there is no such file."""
    try:
        with open(path, "rb", opener=plain_file) as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def single_digit(descriptor: int) -> int:
    """The number under which a shell script is given *descriptor*: its own, where that has one digit.

    `dash` reads `>&12` as a file's name. Where all smaller numbers are in use here, it is the largest: `subprocess`
    wants the number to be open and has its own pipe elsewhere then, and the first ones are daemons' locks, which a
    fork closes.
    """
    return min(descriptor, 9)


def take_number(descriptor: int) -> None:
    """In the child, before it becomes the program: put *descriptor* where `single_digit` says."""
    number = single_digit(descriptor)
    if number != descriptor:
        os.dup2(descriptor, number)
