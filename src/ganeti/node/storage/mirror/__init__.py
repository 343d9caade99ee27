# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `mirror`: two copies on two nodes, kept equal by ganeti-mirrord (docs/design/0057-mirror.md)."""
