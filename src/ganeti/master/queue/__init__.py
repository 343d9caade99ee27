# SPDX-License-Identifier: BSD-2-Clause
"""The life of a job: a pure machine, the engine that runs operations, and undo."""
