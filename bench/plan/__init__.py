"""From what is asked for to cells, and from cells to batches that machines run."""
