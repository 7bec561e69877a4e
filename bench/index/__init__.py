"""The index: the results branch as columns, derived from it, kept in a cache, and asked in SQL."""
