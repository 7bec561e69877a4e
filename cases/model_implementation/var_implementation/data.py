"""Draws the judge's models and works out what they must give, with the starter's modules and the judge's methods."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.casekit.data import stream, write_npz

CONFIGS = {
    "usual": {"patch_nums": [1, 2, 4], "num_classes": 10, "depth": 2, "embed_dim": 32, "num_heads": 4},
    "wide": {"patch_nums": [2, 3, 4, 5], "num_classes": 3, "depth": 1, "embed_dim": 24, "num_heads": 2},
    "late": {"patch_nums": [2, 3], "num_classes": 6, "depth": 3, "embed_dim": 16, "num_heads": 1},
}
OTHERS = {"vocab": 48, "z": 6, "cond_drop_rate": 0.0}
ROUNDING, APART, TRIES = 1e-5, 1e-4, 50
"""Of logits in float32, which guidance and sharpening make larger; of pictures, a tenth of what the check allows."""


def _judges() -> tuple[Any, Any]:
    """The driver, with the judge's own class in the place of the agent's, and that class."""
    sys.path.insert(0, str(Path(__file__).parent / "workspace"))
    import driver
    import helpers
    import reference
    import torch
    import var

    torch.set_num_threads(1)
    var.VAR = reference.completed(var.VAR, helpers)
    return driver, var.VAR


def _generated(
    driver: Any, model: Any, rng: np.random.Generator, config: dict[str, Any], calls: Any, after: Any
) -> Any:
    """Arguments and results of generations that come out alike whatever the rounding: some draws are on an edge."""
    for _ in range(TRIES):
        args = [config, int(rng.integers(2**40)), calls(rng)]
        model.noise = 0.0
        found = driver.generated(*args, after)
        others = []
        # Both ways: what stands on an edge falls to the other side in one of them.
        for model.noise in (ROUNDING, -ROUNDING, 0.0):
            others.append(driver.generated(*args, after)["pictures"])
        if all(
            float((one - two).abs().max()) <= APART
            for it in others
            for one, two in zip(found["pictures"], it, strict=True)
        ):
            return args, found
    raise RuntimeError(f"rounding decides what is generated with {config}")


def _forwards(rng: np.random.Generator) -> list[dict[str, Any]]:
    plan = [(name, scale, 0.0, False) for name in CONFIGS for scale in (-1, 0, 1)]
    plan += [("usual", -1, 0.5, True), ("wide", 2, 0.4, False), ("late", -1, 1.0, True), ("wide", 3, 0.0, True)]
    plan += [("usual", 1, 0.9, False)]
    return [
        {"config": name, "prog_si": scale, "drop": rate, "training": training} for name, scale, rate, training in plan
    ]


def _generations(rng: np.random.Generator, name: str) -> list[dict[str, Any]]:
    classes, seed = CONFIGS[name]["num_classes"], int(rng.integers(2**31))
    several = rng.integers(0, classes, 3).tolist()
    calls: list[dict[str, Any]] = [
        {"B": 3, "label_B": several, "g_seed": seed, "cfg": 2.0, "top_k": 20, "top_p": 0.9},
        # 0 is a seed like others: torch's own generator is elsewhere.
        {"B": 3, "label_B": several, "g_seed": 0, "torch_seed": 1 + seed % 1000},
        {"B": 2, "label_B": None, "g_seed": seed + 1, "cfg": 0.0, "top_p": 0.8},
        {
            "B": 2,
            "label_B": int(rng.integers(classes)),
            "g_seed": seed + 2,
            "cfg": 4.0,
            "top_k": 5,
            "more_smooth": True,
        },
        # Guidance below 0 is computed like any other.
        {"B": 1, "label_B": 0, "g_seed": 0, "torch_seed": 2, "cfg": -0.5, "more_smooth": True, "top_p": 0.7},
        {"B": 2, "label_B": None, "torch_seed": seed % 1000},
        # Without a seed, and with no classes to draw: the tokens alone move torch's own generator on.
        {"B": 1, "label_B": several[2:], "torch_seed": 1 + seed % 1000},
        # Neither is there much guidance, nor anything to mask.
        {"B": 2, "label_B": several[:2], "g_seed": seed + 3, "cfg": 0.5, "more_smooth": True},
    ]
    return [*calls, calls[0], {**calls[0], "weights": seed}]


def build(public: Path, hidden: Path, profile: str, seed: int) -> None:
    """Write jobs.json and expected.npz for the judge; the agent gets nothing."""
    (driver, model), rng = _judges(), np.random.default_rng(stream(seed, "hidden"))
    jobs, arrays = [], {}
    for job in _forwards(rng):
        config = {**CONFIGS[job["config"]], **OTHERS, "cond_drop_rate": job["drop"]}
        tokens = sum(side**2 for side in config["patch_nums"])
        # One label alone; of five, not one is dropped by chance once in a hundred thousand times.
        count = 1 if job["prog_si"] == 0 else 5
        given = [
            rng.integers(0, config["num_classes"] + 1, count),
            rng.normal(size=(count, tokens - config["patch_nums"][0] ** 2, 6)),
            rng.normal(size=(count, tokens, 48)),
        ]
        given = [it if it.dtype == np.int64 else it.astype(np.float32) for it in given]
        args = [config, int(rng.integers(2**40)), {**job, "torch_seed": int(rng.integers(1000))}]
        found = driver.forwarded(*args, given)
        n = len(jobs)
        arrays |= {f"{n}_{k}": it for k, it in enumerate(given)} | {f"{n}_logits": found["logits"].numpy()}
        jobs.append({"call": "forwarded", "args": args, "slopes": found["slopes"], "next": found["next"]})
    for name, sizes in CONFIGS.items():
        config, n = {**sizes, **OTHERS}, len(jobs)
        tokens = sum(side**2 for side in config["patch_nums"]) - config["patch_nums"][0] ** 2
        after = [rng.integers(0, config["num_classes"], 2), rng.normal(size=(2, tokens, 6)).astype(np.float32)]
        args, found = _generated(driver, model, rng, config, partial(_generations, name=name), after)
        arrays |= {f"{n}_{k}": it for k, it in enumerate(after)} | {f"{n}_logits": found["logits"].numpy()}
        arrays |= {f"{n}_picture_{k}": it.numpy() for k, it in enumerate(found["pictures"])}
        jobs.append({"call": "generated", "args": args, "next": found["next"]})
    (hidden / "jobs.json").write_text(json.dumps(jobs))
    write_npz(hidden / "expected.npz", **arrays)
