# SPDX-License-Identifier: BSD-2-Clause
"""`move-instance`: moves instances from one cluster to another over their remote APIs (3.0's, 3.1's or this one)."""
