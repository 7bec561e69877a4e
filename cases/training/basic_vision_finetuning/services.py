"""The hub with its one repository."""

from bench.casekit.model_hub import ModelHub

hub = ModelHub({"bench/tiny-vision": "model"})
