# SPDX-License-Identifier: BSD-2-Clause
"""`import-export`: brings the data of one disk to another cluster, or takes them there, over mutual TLS."""
