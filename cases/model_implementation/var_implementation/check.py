"""Compares logits, gradients and pictures with those of the judge's own methods, which data.py has worked out.

What the driver returns comes from the process that has the agent's var.py; expected values never go there.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bench.casekit.given_code import altered
from bench.judge import check, close, mapping, number, numbers, run_command, sequence, string

WRITTEN = {"VAR.forward", "VAR.autoregressive_infer_cfg"}


def _jobs(ws: Any, call: str) -> list[tuple[int, list[Any], dict[str, Any]]]:
    jobs = json.loads(ws.hidden("jobs.json").read_bytes())
    return [(n, job["args"], job) for n, job in enumerate(jobs) if job["call"] == call]


def _expected(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("expected.npz"), allow_pickle=False) as arrays:
        return dict(arrays)


def _close(found: Any, wanted: Any, what: str, tolerance: float = 2e-4) -> None:
    """Within float32's rounding over some dozens of layers, measured by the largest value."""
    close(found, wanted, rtol=0, atol=tolerance * max(1.0, float(np.abs(wanted).max())), what=what)


def _compare_forward(ws: Any, wanted_jobs: Any) -> None:
    known = _expected(ws)
    for n, args, job in _jobs(ws, "forwarded"):
        if not wanted_jobs(args[2]):
            continue
        told = f"prog_si {args[2]['prog_si']}, sides {args[0]['patch_nums']}, drop rate {args[0]['cond_drop_rate']}"
        answer = ws.drive("driver.py:forwarded", *args, [known[f"{n}_{k}"] for k in range(3)])
        found = mapping(answer, keys=("logits", "slopes", "same", "next", "unused", "steps"))
        _close(found["logits"], known[f"{n}_logits"], f"forward(label_B, teacher), {told}: the logits")
        drawn, slopes = number(found["next"]), job["slopes"]
        assert drawn == job["next"], f"{told}: torch's generator was not drawn from once for each label"
        gradients, largest = mapping(found["slopes"], keys=list(slopes)), max(map(abs, slopes.values()))
        for name, slope in slopes.items():
            apart = abs(number(gradients[name]) - slope)
            assert apart <= 2e-3 * abs(slope) + 2e-5 * largest, f"{told}: the gradient of {name} is off by {apart:.4g}"
        assert found["steps"] == [[*np.shape(known[f"{n}_logits"])[:2], False, True]], (
            f"{told}: not all at once, masked"
        )
        assert found["same"] is True, "forward has changed its arguments, or settings"
        assert found["unused"] is True, f"{told}: teacher tokens behind the end are used"


@check(weight=3, required=True)
def forward_matches(ws: Any) -> None:
    """Logits and gradients of all scales, for three models whose first scale has one or four tokens."""
    _compare_forward(ws, lambda job: job["prog_si"] == -1 and not job["drop"])


@check(weight=2, required=True)
def progressive_training_matches(ws: Any) -> None:
    """With prog_si logits and gradients end with that scale; what does not exist raises IndexError."""
    _compare_forward(ws, lambda job: job["prog_si"] >= 0 and not job["drop"])
    config = _jobs(ws, "generated")[0][1][0]
    for label, scale in ((0, 3), (11, -1), (0, 7)):
        name, off = sequence(ws.drive("driver.py:refused", config, label, scale), length=2)
        assert off is True, "a cache is still on, or not empty, after a call that was refused"
        assert string(name) == "IndexError", f"label {label} with prog_si {scale} gives {name or 'no error'}"


@check(weight=2, required=True)
def labels_are_dropped(ws: Any) -> None:
    """Labels are replaced where the one draw of torch's global generator says, in both modes, at rates to 1."""
    _compare_forward(ws, lambda job: job["drop"] > 0)


def _generated(ws: Any, which: Any) -> None:
    known = _expected(ws)
    for n, args, job in _jobs(ws, "generated"):
        answer = ws.drive("driver.py:generated", *args, [known[f"{n}_{k}"] for k in range(2)])
        found = mapping(answer, keys=("pictures", "caches", "labels", "logits", "next", "moved", "kept", "steps"))
        pictures = sequence(found["pictures"], length=len(args[2]))
        for k, (call, picture) in enumerate(zip(args[2], pictures, strict=True)):
            if which(call):
                told = ", ".join(f"{name} {value}" for name, value in call.items())
                # The sharp softmax of the last scales makes rounding larger: up to 2e-4 in a hundred honest answers.
                _close(picture, known[f"{n}_picture_{k}"], f"autoregressive_infer_cfg with {told}: the picture", 1e-3)
        for call, drawn, wanted in zip(args[2], numbers(found["next"], length=len(args[2])), job["next"], strict=True):
            alone = call.get("g_seed") is None or drawn == wanted
            assert alone, f"with g_seed {call['g_seed']} generation uses torch's own generator, too"
        for call, moved in zip(args[2], sequence(found["moved"], length=len(args[2])), strict=True):
            went_on = call.get("g_seed") is not None or moved is True
            assert went_on, "without g_seed generation leaves torch's generator where it was: the next pictures repeat"
        wanted = [[[2 * call["B"], side**2, True, False] for side in args[0]["patch_nums"]] for call in args[2]]
        told = "a step does not compute 2 B sequences of one scale's tokens with caches on and no mask"
        assert found["steps"] == wanted, told
        told = "generation has changed a mode, an attribute, or what is trained"
        assert found["kept"] == [True] * len(args[2]), told
        assert found["caches"] == [True] * len(args[2]), "a cache is still on, or not empty, after generation"
        assert found["labels"] == [call["label_B"] for call in args[2]], "generation has changed the labels"
        _close(found["logits"], known[f"{n}_logits"], "logits of a forward pass after generation")


@check(weight=3, required=True)
def generation_matches(ws: Any) -> None:
    """With the same seed the pictures are the judge's, for guidance 0 to 2, top-k, top-p, and labels of every kind."""
    _generated(ws, lambda call: not call.get("more_smooth"))


@check(weight=1, required=True)
def smooth_generation_matches(ws: Any) -> None:
    """With more_smooth the vectors are means of the table under the masked, sharpened logits; guidance is -0.5 to 4."""
    _generated(ws, lambda call: call.get("more_smooth", False))


@check(weight=0, required=True)
def visible_test_passes(ws: Any) -> None:
    """The visible test ends well."""
    run_command(ws, "python test_var.py")


@check(weight=0, guard=True)
def given_code_stays(ws: Any) -> None:
    """What `var.py` gives is as it was; comments, docstrings, form and further definitions are free."""
    changed = altered(ws.original("var.py").read_text("utf-8"), ws.source("var.py"), WRITTEN)
    assert not changed, f"given in var.py, and changed: {', '.join(changed)}"
