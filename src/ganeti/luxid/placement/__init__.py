# SPDX-License-Identifier: BSD-2-Clause
"""Placement in LuxiD: the worker that holds the cluster, and what is known of capacity."""
