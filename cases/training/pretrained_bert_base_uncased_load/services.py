"""The hub with its two repositories."""

from bench.casekit.model_hub import ModelHub

hub = ModelHub({"bench/bert-base-uncased": "uncased", "bench/bert-base-cased": "cased"})
