# SPDX-License-Identifier: BSD-2-Clause
"""Images come onto disks, by path and by URL, and helper guests start from copies of them."""

from __future__ import annotations

import errno
import functools
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.one_node import OneNode

from ganeti.base.errors import BlockDeviceError
from ganeti.model.node_requests import DiskSpec, InstanceSpec, NicSpec

MIB = 1024 * 1024
DISK = DiskSpec(uuid="d0", template="file", logical_id=["loop", "/srv/disks/web1/d0"], size_mib=4, index=0)
INSTANCE = InstanceSpec(
    name="web1",
    uuid="uuid-web1",
    hypervisor="fake",
    os="",
    primary_node="node1",
    primary_node_uuid="uuid-node1",
    hvparams={},
    beparams={"maxmem": 128, "vcpus": 1},
    disks=[DISK],
)
CONTENT = os.urandom(MIB) + bytes(MIB) + os.urandom(1000)


@pytest.fixture
def place(node: OneNode) -> Path:
    """Where the images are."""
    node.call("blockdev_create", disk=DISK)
    directory = Path(node.paths.under("/srv/images"))
    directory.mkdir()
    (directory / "base.raw").write_bytes(CONTENT)
    return directory


@pytest.fixture
def server(place: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words: object) -> None: ...

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(place)))
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    thread.join()
    made.server_close()


def disk_content(node: OneNode) -> bytes:
    return Path(node.paths.under("/srv/disks/web1/d0")).read_bytes()


def test_a_disk_is_filled_and_filled_again(node: OneNode, place: Path, server: str) -> None:
    assert node.call("disk_image", instance=INSTANCE, index=0, image=str(place / "base.raw")) == len(CONTENT)
    assert disk_content(node) == CONTENT + bytes(4 * MIB - len(CONTENT))
    other = bytes(MIB) + os.urandom(MIB)
    (place / "other.raw").write_bytes(other)
    assert node.call("disk_image", instance=INSTANCE, index=0, image=f"{server}/other.raw") == len(other)
    assert disk_content(node)[: 2 * MIB] == other


@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize(
    "secret", ["/etc/shadow", "/var/lib/ganeti/ca.key", "/root/.ssh/id_rsa", "/srv/disks/web2/d0", "/proc/kcore"]
)
def test_no_file_of_the_node_that_is_no_image_comes_onto_a_disk(
    node: OneNode, place: Path, secret: str, through_a_link: bool
) -> None:
    """Whoever submits a job names the image, and root opens it."""
    path = Path(node.paths.under(secret))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CONTENT)
    if through_a_link:
        (place / "link.raw").symlink_to(path)
        path = place / "link.raw"
    with pytest.raises(BlockDeviceError, match=f"The image {path} cannot be used: "):
        node.call("disk_image", instance=INSTANCE, index=0, image=str(path))
    assert not any(disk_content(node))
    with pytest.raises(BlockDeviceError, match=f"The image {path} cannot be used: "):
        node.call("helper_start", instance=INSTANCE, image=str(path), communicates=False)


def test_a_qcow2_disk_is_filled_too(node: OneNode, place: Path) -> None:
    disk = replace(DISK, logical_id=["loop", "/srv/disks/web1/d1"], params={"format": "qcow2"})
    node.call("blockdev_create", disk=disk)
    instance = replace(INSTANCE, disks=[disk])
    node.call("disk_image", instance=instance, index=0, image=str(place / "base.raw"))
    raw = str(place / "back.raw")
    path = node.paths.under("/srv/disks/web1/d1")
    node.run(node.state.world.run(["qemu-img", "convert", "-U", "-f", "qcow2", "-O", "raw", path, raw]))
    assert Path(raw).read_bytes()[: len(CONTENT)] == CONTENT
    assert os.listdir(f"{node.paths.data_dir}/helper-images") == []


def test_what_is_no_image_is_said(node: OneNode, place: Path, server: str) -> None:
    (place / "large.raw").write_bytes(os.urandom(5 * MIB))
    (place / "cow.raw").write_bytes(b"QFI\xfb" + bytes(MIB))
    (place / "empty.raw").touch()
    os.mkfifo(place / "fifo")
    for image, sentence in (
        (str(place / "large.raw"), "is larger than the disk of 4 MiB"),
        (str(place / "cow.raw"), r"is of format qcow2: convert it first \(qemu-img convert -O raw IMAGE NEW\)"),
        (str(place / "empty.raw"), "is empty"),
        (str(place / "gone.raw"), "cannot be had: No such file or directory"),
        (str(place), "Is a directory"),
        (str(place / "fifo"), "is not a file"),
        (f"{server}/gone.raw", "cannot be had"),
        ("http://127.0.0.1:1/x", "cannot be had"),
        ("file:///etc/passwd", "is neither an absolute path nor a URL"),
    ):
        with pytest.raises(BlockDeviceError, match=sentence):
            node.call("disk_image", instance=INSTANCE, index=0, image=image)


class Cut(http.server.BaseHTTPRequestHandler):
    """Ends the connection in the middle of an image, of which it has said the size or not, or answers nonsense."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/nonsense":
            self.wfile.write(b"nonsense\r\n\r\n")
            return
        self.send_response(200)
        if self.path == "/sized":
            self.send_header("Content-Length", str(3 * MIB))
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write((b"" if self.path == "/sized" else b"300000\r\n") + bytes(MIB))
        self.close_connection = True

    def log_message(self, *words: object) -> None: ...


@pytest.mark.parametrize(
    ("path", "words"),
    [("sized", "1048576 of 3145728 bytes"), ("chunked", "cannot be read"), ("nonsense", "cannot be had")],
)
def test_an_image_that_came_in_part_is_refused(node: OneNode, place: Path, path: str, words: str) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            with pytest.raises(BlockDeviceError, match=words):
                node.call("disk_image", instance=INSTANCE, index=0, image=f"http://127.0.0.1:{made.server_port}/{path}")
        finally:
            made.shutdown()
            thread.join()


def test_where_there_is_no_room_is_said_and_nothing_half_written_stays(
    node: OneNode, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    image = str(place / "base.raw")
    monkeypatch.setattr(os, "pwrite", no_room)
    sentence = r"{} cannot be filled: No space left on device; \d+ MiB are free there: make room there and try again"
    with pytest.raises(BlockDeviceError, match=sentence.format("/srv/disks/web1/d0")):
        node.call("disk_image", instance=INSTANCE, index=0, image=image)
    with pytest.raises(BlockDeviceError, match=sentence.format("helper-images/web1.img")):
        node.call("helper_start", instance=INSTANCE, image=image)
    assert os.listdir(f"{node.paths.data_dir}/helper-images") == []


def test_a_helper_guest_has_a_copy_of_the_image_before_the_disks(node: OneNode, place: Path) -> None:
    image = str(place / "base.raw")
    for _ in ("once", "again"):
        node.call("helper_start", instance=INSTANCE, image=image)
    guests = Path(node.paths.run_dir) / "fake-hypervisor"
    copy = f"{node.paths.data_dir}/helper-images/web1.img"
    disks = node.paths.under("/srv/disks/web1/d0")
    assert f'["{copy}","{disks}"]' in (guests / "web1").read_text().replace(", ", ",")
    assert Path(copy).read_bytes()[: len(CONTENT)] == CONTENT
    for _ in ("once", "again"):
        node.call("helper_end", instance=INSTANCE)
    assert not (guests / "web1").exists()
    assert not os.path.exists(copy)
    assert node.call("instance_info", instance=INSTANCE) is None


def test_the_instance_that_runs_after_its_helper_is_not_ended_in_its_place(node: OneNode, place: Path) -> None:
    node.call("helper_start", instance=INSTANCE, image=str(place / "base.raw"))
    node.call("helper_end", instance=INSTANCE)
    node.call("instance_start", instance=INSTANCE)
    node.call("helper_end", instance=INSTANCE)
    assert node.call("instance_info", instance=INSTANCE).state == "running"


def test_a_helper_guest_that_communicates_has_that_nic_alone(node: OneNode, place: Path) -> None:
    talk = NicSpec(
        index=1,
        uuid="n1",
        mac="52:54:00:00:00:01",
        mode="routed",
        link="talk",
        ip="169.254.0.7",
        name="ganeti:communication:web1",
    )
    other = NicSpec(index=0, uuid="n0", mac="aa:00:00:00:00:01", mode="bridged", link="br0")
    instance = replace(INSTANCE, nics=[other, talk])
    started: list[InstanceSpec] = []
    hypervisor = node.state.hypervisor_of(instance)

    async def start(spec: InstanceSpec, disks: object, **_: object) -> None:
        started.append(spec)

    hypervisor.start = start  # type: ignore[method-assign]
    for communicates in (True, False):
        node.call("helper_start", instance=instance, image=str(place / "base.raw"), communicates=communicates)
    assert [[nic.uuid for nic in spec.nics] for spec in started] == [["n1"], []]
