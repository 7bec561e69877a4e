"""ml-dev-bench: a continuous benchmark of AI agents on machine-learning development work."""

__version__ = "0.1.0"
