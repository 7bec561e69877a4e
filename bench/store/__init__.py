"""The results branch: records in git, written once and never rewritten."""
