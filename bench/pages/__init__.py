"""The static site: pages and data files made from records and case descriptions, and from nothing else."""
