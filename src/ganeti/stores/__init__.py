# SPDX-License-Identifier: BSD-2-Clause
"""What lies on disk: configuration, job files, undo logs, lock journal, the copy of a master candidate."""
