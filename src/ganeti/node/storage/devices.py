# SPDX-License-Identifier: BSD-2-Clause
"""Block devices that something else has made: what they are, and how large."""

import os
import stat

from ganeti.base.errors import BlockDeviceError


def size_of(path: str) -> int | None:
    """Size in bytes of the block device at *path*, None where there is nothing; raises `BlockDeviceError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as err:
        raise BlockDeviceError(f"Device {path} cannot be opened: {err.strerror}") from err
    try:
        require_block_device(path, os.fstat(descriptor).st_mode)
        return os.lseek(descriptor, 0, os.SEEK_END)
    except OSError as err:
        raise BlockDeviceError(f"Device {path} cannot be read: {err.strerror}") from err
    finally:
        os.close(descriptor)


def require_block_device(path: str, mode: int) -> None:
    if not stat.S_ISBLK(mode):
        raise BlockDeviceError(f"{path} is no block device")


def in_use(path: str) -> bool:
    """Whether the kernel uses the block device itself: it is mounted, or a part of another device."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
    except OSError:
        return True
    return False


def write_zeros(path: str, offset: int, size: int) -> None:
    """Overwrite a part of the device, in bytes, durably."""
    zeros = memoryview(bytes(2**20))
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        done = 0
        while done < size:
            done += os.pwrite(descriptor, zeros[: min(len(zeros), size - done)], offset + done)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
