# SPDX-License-Identifier: BSD-2-Clause
"""ganeti-mirrord at work: it keeps the two copies of each mirrored disk equal.

Each disk in use has a storage daemon on both nodes (`data_path`, a program in C). That of the primary sends each write
to the other one over the cluster's mutual TLS. `storage_daemon` has its commands, `disk` decides what a copy may do,
`server` answers the node daemon and the other nodes.
"""
