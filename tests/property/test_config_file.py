# SPDX-License-Identifier: BSD-2-Clause
"""Laws of the published file: whatever is put, grown, renamed or removed, it says exactly that, and is known by it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.thoroughness import examples
from tests.fakes.wconfd import fast_directory

from ganeti.master.config.file_layout import FileLayout, is_broken
from ganeti.master.config.fingerprint import Fingerprint, fingerprint_of
from ganeti.master.config.records import Commit, Put
from ganeti.model.objects import KINDS, SINGLES, FilterRule
from ganeti.stores.config_file import ConfigFile

EXAMPLES = examples(60, quick=24, campaign=2000)
PLACES = ("nodes", "instances", "disks")
OBJECT = FilterRule(uuid="not looked at")

entries = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 300), max_size=6)
edits = st.tuples(st.sampled_from(PLACES), st.sampled_from("abcdefgh"), st.none() | st.integers(0, 3000))
cluster = st.tuples(st.just("cluster"), st.just("cluster"), st.integers(0, 3000))
maintenance = st.tuples(st.just("maintenance"), st.just("maintenance"), st.none() | st.integers(0, 3000))
publications = st.lists(st.lists(edits | cluster | maintenance, max_size=4), max_size=25)


def fragment(size: int) -> bytes:
    return msgspec.json.encode({"name": "ä}\n\\" + "x" * size})


class Model:
    """What the file must say, kept in the simplest way."""

    def __init__(self, start: dict[str, dict[str, int]]) -> None:
        self.header: dict[str, Any] = {"version": 3010000, "later_key": {"a": [1, None]}, "serial_no": 0, "mtime": 0.5}
        self.entries = {kind: {uuid: fragment(size) for uuid, size in start.get(kind, {}).items()} for kind in KINDS}
        self.entries["cluster"] = {"cluster": fragment(5)}
        fragments = {(kind, uuid): data for kind, held in self.entries.items() for uuid, data in held.items()}
        self.fingerprint = Fingerprint(self.header, fragments)
        self.commits: list[Commit] = []

    def commit(self, edits: list[tuple[str, str, int | None]]) -> dict[tuple[str, str], bytes | None]:
        newest = {(kind, uuid): None if size is None else fragment(size) for kind, uuid, size in edits}
        self.header["serial_no"] += 1
        self.header["mtime"] += 1 / 3
        puts = tuple(Put(*key, OBJECT, data) for key, data in newest.items() if data is not None)
        removes = tuple(key for key, data in newest.items() if data is None)
        commit = Commit((1, self.header["serial_no"]), self.header["mtime"], puts, removes)
        self.commits.append(commit)
        (expected,) = self.fingerprint.after([commit])
        self.fingerprint.apply(commit)
        assert expected == self.digest, "what a commit is signed with is what it has in the end"
        for (kind, uuid), data in newest.items():
            if data is None:
                self.entries[kind].pop(uuid, None)
            else:
                self.entries[kind][uuid] = data
        return newest

    @property
    def digest(self) -> str:
        return self.fingerprint.now(self.header["serial_no"], self.header["mtime"])

    @property
    def header_data(self) -> bytes:
        return msgspec.json.encode(self.header)

    def check(self, data: bytes) -> None:
        said = {kind: {uuid: json.loads(text) for uuid, text in held.items()} for kind, held in self.entries.items()}
        for kind, key in SINGLES.items():
            single = said.pop(kind)
            said |= {kind: single[key]} if single else {}
        read = json.loads(data)
        assert read == self.header | said
        assert list(read) == [*self.header, *(kind for kind in KINDS if kind in said)]
        assert fingerprint_of(data) == self.digest
        assert not is_broken(data, self.digest)
        place = data.index(b"\n") + 1
        for torn in (
            data[:place] + data[place:].replace(b"x", b"y", 1),
            data.replace(b'serial_no":', b'serial_no":1', 1),
        ):
            assert torn == data or is_broken(torn, fingerprint_of(torn))


def play(start: dict[str, dict[str, int]], steps: Any, publish: Callable[[Model, Any], bytes]) -> None:
    model = Model(start)
    model.check(publish(model, None))
    for step in steps:
        model.check(publish(model, model.commit(step)))


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.dictionaries(st.sampled_from(PLACES), entries), publications)
def test_every_publication_says_exactly_the_configuration(start, steps):
    with fast_directory() as directory:
        file = ConfigFile(str(directory / "config.data"))

        def publish(model: Model, changed: Any) -> bytes:
            if changed is None:
                file.begin(model.header_data, model.entries, model.digest)
            else:
                file.update(model.header_data, changed.items(), model.digest)
            file.write()
            return Path(directory / "config.data").read_bytes()

        play(start, steps, publish)
        file.close()


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.dictionaries(st.sampled_from(PLACES), entries), publications)
def test_a_patched_file_has_the_bytes_of_one_written_whole(start, steps):
    """Candidates compare theirs with the master's, whichever of its two files that is."""
    layout: FileLayout | None = None
    content = bytearray()

    def publish(model: Model, changed: Any) -> bytes:
        nonlocal layout, content
        if layout is None:
            layout = FileLayout(model.header_data, model.entries, model.digest)
        for (kind, uuid), data in (changed or {}).items():
            layout.remove(kind, uuid) if data is None else layout.put(kind, uuid, data)
        layout.set_header(model.header_data, model.digest)
        if not layout.fits:
            layout.start_anew()
            content.clear()
        if not content:
            layout.take_writes()
            content += b"".join(layout.whole())
        for offset, data in layout.take_writes().items():
            content[offset : offset + len(data)] = data
        assert content == b"".join(layout.whole())
        assert len(content) == layout.size_bytes
        return bytes(content)

    play(start, steps, publish)


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.dictionaries(st.sampled_from(PLACES), entries), publications)
def test_commits_made_durable_together_are_signed_as_one_by_one(start, steps):
    together, one_by_one = Model(start), Model(start)
    digests = []
    for step in steps:
        one_by_one.commit(step)
        digests.append(one_by_one.digest)
    assert list(together.fingerprint.after(one_by_one.commits)) == digests


@settings(deadline=None, max_examples=EXAMPLES)
@given(entries, entries, st.sampled_from(PLACES))
def test_another_content_has_another_fingerprint(one, other, kind):
    models = [Model({kind: held}) for held in (one, other)]
    assert (models[0].digest == models[1].digest) == (models[0].entries == models[1].entries)
