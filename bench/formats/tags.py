"""The words that tag a case: one vocabulary, so that a selection by tag finds all that it means."""

from __future__ import annotations

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
