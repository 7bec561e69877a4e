"""The words that sort cases, categories and tags: one vocabulary, so that a selection finds all that it means."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from bench.base.text import meant

DOMAINS = frozenset(
    {"audio", "general", "generative", "graphs", "nlp", "reinforcement-learning", "segmentation", "tabular",
     "time-series", "vision"}
)  # fmt: skip
"""What the data are."""
TECHNIQUES = frozenset(
    {"analysis", "api", "basics", "classification", "dataset", "debugging", "distillation", "download", "evaluation",
     "fine-tuning", "images", "labels", "logging", "logs", "lora", "model-architecture", "optimisation", "overfitting",
     "performance", "preprocessing", "pretrained", "profiling", "prompting", "pruning", "quantization", "regression",
     "reproduction", "smoke", "training", "transformers"}
)  # fmt: skip
"""What is done."""
TOOLS = frozenset(
    {"huggingface", "jax", "kaggle", "lightning", "llm", "numpy", "pandas", "python", "pytorch", "scikit-learn",
     "torchvision", "wandb"}
)  # fmt: skip
"""With which libraries and services."""
TAGS = DOMAINS | TECHNIQUES | TOOLS
CATEGORIES = {
    "api_integration": "work with a service over its API",
    "basics": "small tasks that any agent should solve",
    "code_optimization": "make working code take less time or memory",
    "dataset_handling": "fetch, read, clean or reshape data",
    "debugging": "find and fix what is wrong in code that runs or should run",
    "environment": "get packages, tools and settings to work together",
    "model_implementation": "write a model or a layer from its description",
    "performance": "raise what a model reaches on data it has not seen",
    "tabular": "predict from tables",
    "training": "train or fine-tune a model, and show that it was",
}
"""Every category of cases, with what is asked for in it; docs/adding-a-case.md lists them."""


def _category(name: str) -> str:
    if name not in CATEGORIES:
        raise ValueError(f"is not a category; {meant(name, CATEGORIES)}")
    return name


Category = Annotated[str, AfterValidator(_category), Field(json_schema_extra={"enum": sorted(CATEGORIES)})]
