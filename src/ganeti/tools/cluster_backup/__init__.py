# SPDX-License-Identifier: BSD-2-Clause
"""Backups of the cluster's own state: configuration, keys and queue (docs/operator/cluster-backup.md)."""
