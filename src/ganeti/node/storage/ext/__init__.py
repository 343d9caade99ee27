# SPDX-License-Identifier: BSD-2-Clause
"""The disk template `ext`: disks of an outside storage system, reached by the scripts of a provider."""
