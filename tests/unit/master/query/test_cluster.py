# SPDX-License-Identifier: BSD-2-Clause
"""What `QueryClusterInfo` says of clusters that others have written."""

import msgspec
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.master.query.cluster import cluster_info
from ganeti.model.objects import CLUSTER_KEY


def test_a_policy_that_says_nothing_is_shown_with_the_values_that_hold():
    config = configuration()
    config.put("cluster", CLUSTER_KEY, msgspec.structs.replace(config.cluster, ipolicy={"vcpu-ratio": 2.0}))
    policy = cluster_info(config, catalogue())["ipolicy"]
    assert policy["vcpu-ratio"] == 2.0
    assert set(policy) == {"minmax", "std", "disk-templates", "vcpu-ratio", "spindle-ratio"}
    assert policy["disk-templates"] == config.cluster.enabled_disk_templates
