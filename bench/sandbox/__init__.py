"""Sandboxes: one protocol, several back ends, the same limits everywhere."""
