# SPDX-License-Identifier: BSD-2-Clause
"""The monitoring daemon: what each collector finds on this node, as JSON and for Prometheus (protocols, 5)."""
