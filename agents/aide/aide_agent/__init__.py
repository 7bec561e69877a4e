"""A tree search over programs, after AIDE."""
