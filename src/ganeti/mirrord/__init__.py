# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-mirrord at work: it keeps the two copies of each mirrored disk equal.

Each disk in use has a storage daemon of QEMU on both nodes (`storage_daemon`). That of the primary writes to both
copies by a mirror job; the bytes go through `relay` over the cluster's mutual TLS. `disk` decides what a copy may do,
`server` answers the node daemon and the other nodes.
"""
