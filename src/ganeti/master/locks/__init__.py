# SPDX-License-Identifier: BSD-2-Clause
"""The locks of the cluster as plain objects: `table` changes, `state` answers, `snapshot` saves, `names` reads."""
