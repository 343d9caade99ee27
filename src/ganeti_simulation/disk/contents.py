# SPDX-License-Identifier: BSD-2-Clause
"""What is in a simulated file: bytes while it is small, 4 KiB pages when it is large or full of holes.

Small contents are `bytes` as long as they are shared (between a disk and its copies, or with the durable state) and
become a `bytearray` at the first change. `Pages` takes memory for the pages written only: a guest's disk of 1 GiB
costs nothing.
"""

PAGE_BYTES = 4096
SMALL_BYTES = 256 * 1024
_ZERO_PAGE = bytes(PAGE_BYTES)


class Pages:
    """A large content; pages are immutable, so a copy shares them."""

    __slots__ = ("pages", "size")

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.pages: dict[int, bytes] = {}
        self.size = 0
        if content:
            self.write(0, bytes(content))

    def copy(self) -> "Pages":
        twin = Pages()
        twin.pages = self.pages.copy()
        twin.size = self.size
        return twin

    def write(self, offset: int, data: bytes) -> None:
        done = 0
        while done < len(data):
            number, start = divmod(offset + done, PAGE_BYTES)
            piece = data[done : done + PAGE_BYTES - start]
            if len(piece) < PAGE_BYTES:
                page = self.pages.get(number, _ZERO_PAGE)
                piece = page[:start] + piece + page[start + len(piece) :]
                done += PAGE_BYTES - start
            else:
                done += PAGE_BYTES
            self.pages[number] = piece
        self.size = max(self.size, offset + len(data))

    def read(self, offset: int, count: int) -> bytes:
        end = min(offset + count, self.size)
        if offset >= end:
            return b""
        first, last = offset // PAGE_BYTES, (end - 1) // PAGE_BYTES
        whole = b"".join([self.pages.get(number, _ZERO_PAGE) for number in range(first, last + 1)])
        return whole[offset - first * PAGE_BYTES : end - first * PAGE_BYTES]

    def truncate(self, size: int) -> None:
        if size < self.size:
            number, start = divmod(size, PAGE_BYTES)
            for known in [known for known in self.pages if known > number or (known == number and not start)]:
                del self.pages[known]
            if start and number in self.pages:
                self.pages[number] = self.pages[number][:start] + bytes(PAGE_BYTES - start)
        self.size = size


Content = bytes | bytearray | Pages


def size_of(content: Content) -> int:
    return content.size if type(content) is Pages else len(content)  # type: ignore[arg-type]


def frozen(content: Content) -> bytes | Pages:
    """A copy that later changes do not reach."""
    if type(content) is Pages:
        return content.copy()
    return bytes(content)  # type: ignore[arg-type]


def written(content: Content, offset: int, data: bytes) -> Content:
    """The content after a write; changed in place where that is possible."""
    end = offset + len(data)
    if type(content) is bytes:
        if not content and not offset and end <= SMALL_BYTES:
            return data
        content = bytearray(content)
    if type(content) is bytearray:
        if end <= SMALL_BYTES:
            if offset > len(content):
                content.extend(bytes(offset - len(content)))
            content[offset:end] = data
            return content
        content = Pages(content)
    assert isinstance(content, Pages)
    content.write(offset, data)
    return content


def truncated(content: Content, size: int) -> Content:
    """The content cut or filled up with zeros; changed in place where that is possible."""
    if type(content) is not Pages and size > SMALL_BYTES:
        content = Pages(content)  # type: ignore[arg-type]
    if type(content) is Pages:
        content.truncate(size)
        return content
    assert not isinstance(content, Pages)
    if size <= len(content):
        return content[:size]
    return bytearray(content) + bytes(size - len(content))


def part_of(content: Content, offset: int, count: int) -> bytes:
    """Up to *count* bytes from *offset* on."""
    if type(content) is bytes:
        return content[offset : offset + count]
    if type(content) is Pages:
        return content.read(offset, count)
    return bytes(content[offset : offset + count])  # type: ignore[index]


def blocks_of(content: Content, reserved: int) -> int:
    """How many blocks of `PAGE_BYTES` it takes on the disk; *reserved* blocks were asked for ahead."""
    if type(content) is Pages:
        return max(len(content.pages), reserved)
    return max((len(content) + PAGE_BYTES - 1) // PAGE_BYTES, reserved)  # type: ignore[arg-type]
