# SPDX-License-Identifier: BSD-2-Clause
"""`burnin`: makes instances, does everything to them that a cluster must be able to do, and removes them."""
