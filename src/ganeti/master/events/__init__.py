# SPDX-License-Identifier: BSD-2-Clause
"""What happens in the cluster, as an ordered log of events that clients of LUXI follow. Pure."""
