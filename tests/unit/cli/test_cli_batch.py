# SPDX-License-Identifier: BSD-2-Clause
"""gnt-instance batch-create: the file, what is submitted, and what is said at the end."""

import json

import pytest


@pytest.fixture
def batch(tmp_path):
    def write(content):
        path = tmp_path / "instances.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_each_description_is_sent_with_the_defaults_of_add(gnt, master, batch):
    master.job({"jobs": [[True, 15]], "allocatable": ["web1"], "failed": []})
    path = batch([{"instance_name": "web1", "disk_template": "diskless"}])
    ran = gnt(f"gnt-instance batch-create -I hail {path}")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, "All instances created successfully.")
    assert master.submitted() == [
        {
            "OP_ID": "OP_INSTANCE_MULTI_ALLOC",
            "iallocator": "hail",
            "instances": [
                {"instance_name": "web1", "disk_template": "diskless", "mode": "create", "disks": [], "nics": [{}]}
            ],
        }
    ]
    assert gnt(f"gnt-instance batch-create --submit {path}").err == "JobID: 14\n"


def test_those_that_fit_nowhere_are_named(gnt, master, batch):
    master.job({"jobs": [], "allocatable": [], "failed": ["web1"]})
    ran = gnt(f"gnt-instance batch-create {batch([{'instance_name': 'web1'}])}")
    assert ran.status == 1
    assert ran.err == "Instance web1 was not created: it fits nowhere\nThere were errors during the creation.\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("[", "is no JSON"), ({"instance_name": "web1"}, "must hold a list of objects"), ([1], "a list of objects")],
)
def test_a_file_that_cannot_be_used(gnt, master, batch, content, sentence):
    ran = gnt(f"gnt-instance batch-create {batch(content)}")
    assert ran.status == 1
    assert sentence in ran.err
    assert "cannot be read: No such file" in gnt("gnt-instance batch-create /nowhere.json").err
    assert not master.submitted()
