# SPDX-License-Identifier: BSD-2-Clause
"""A whole cluster on one machine: nodes in namespaces, a guest that proves it lives, and the story of the demo."""
