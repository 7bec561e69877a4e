"""Fills models with weights of a seed, and runs the two methods: in the subject with the agent's var.py, and in data.py
with the judge's. It knows no expected value.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import torch


def _model(config: dict[str, Any], seed: int) -> Any:
    """A transformer and its autoencoder, filled."""
    from var import VAR
    from vqvae import VQVAE

    sides = config["patch_nums"]
    vae = VQVAE(config["vocab"], config["z"], 8, sides).eval()
    sizes = {name: config[name] for name in ("num_classes", "depth", "embed_dim", "num_heads", "cond_drop_rate")}
    model = VAR(vae, **sizes, patch_nums=sides).eval()
    _fill(model, seed)
    return model


def _fill(model: Any, seed: int) -> None:
    """Weights so large that every term counts, for the autoencoder as well."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for part in (*model.vae_proxy, model):
            for name, value in sorted(part.named_parameters()):
                inside = np.prod(value.shape[1:]) if value.dim() > 1 and "weight" in name else 1
                inside = 0.5 if "embedding" in name or "emb" in name else inside
                spread = (1.0 if "qkv" not in name else 1.6) / inside**0.5
                value.copy_(torch.from_numpy(rng.normal(0, spread, tuple(value.shape)).astype(np.float32)))


def _settings(model: Any) -> str:
    """What is given and no method may change: attributes, masks, each module's mode, and what is trained."""
    names = ("num_classes", "cond_drop_rate", "patch_nums", "prog_si", "first_l", "L", "begin_ends")
    found: list[Any] = [getattr(model, name) for name in names]
    for whole in (model, *model.vae_proxy):
        found += [part.training for part in whole.modules()]
        found += [value.requires_grad for value in whole.parameters()]
    return str([*found, *(value.tolist() for value in (model.lvl_1L, model.attn_bias_for_masking))])


def _part_apart(model: Any) -> None:
    """A part of each model in the other mode, and trained where the rest is not: train(before) would not restore it."""
    vae = model.vae_proxy[0]
    model.blocks[-1].ffn.train(not model.training)
    vae.decoder.train(not vae.training)
    vae.encoder.requires_grad_(not vae.quantize.embedding.weight.requires_grad)


def _note_steps(model: Any, steps: list[list[Any]]) -> Any:
    """Notes of each call of the first attention its sequences and tokens, whether its cache is on, and a mask given."""

    def note(attention: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        x, mask = [*given, *named.values(), None][:2]
        steps.append([*x.shape[:2], attention.caching, mask is not None])

    return model.blocks[0].attn.register_forward_pre_hook(note, with_kwargs=True)


def _caches_are_off(model: Any) -> bool:
    return all(block.attn.cached is None and not block.attn.caching for block in model.blocks)


def forwarded(config: dict[str, Any], seed: int, job: dict[str, Any], arrays: list[Any]) -> dict[str, Any]:
    """Logits and gradients of one forward pass: of each parameter and the teacher tokens, times a fixed direction.

    The same model has been through another pass before, with other weights. next: what torch's global generator gives
    afterwards. same: whether arguments and settings are as they were. unused: whether the logits are the same where the
    teacher tokens behind them are no numbers. steps: see `_note_steps`.
    """
    labels, teacher, upstream = (torch.from_numpy(np.array(it)) for it in arrays)
    model = _model(config, seed + 1)
    with torch.no_grad():
        model(labels, teacher.clone())
    _fill(model, seed)
    model.prog_si = job["prog_si"]
    model.train(job["training"])
    _part_apart(model)
    given = teacher.clone().requires_grad_()
    torch.manual_seed(job["torch_seed"])
    before, steps = _settings(model), list[list[Any]]()
    hook = _note_steps(model, steps)
    logits = model(labels, given)
    hook.remove()
    drawn = float(torch.rand(()))
    (logits * upstream[:, : logits.shape[1]]).sum().backward()
    found = {**dict(model.named_parameters()), "teacher": given}
    direction = torch.Generator().manual_seed(seed % 2**31)
    slopes = {}
    for name, value in sorted(found.items()):
        along = torch.randn(value.shape, generator=direction)
        slopes[name] = 0.0 if value.grad is None else float((value.grad * along).sum())
    same = bool((labels.numpy() == arrays[0]).all()) and bool((given.detach() == teacher).all())
    same = same and _settings(model) == before
    teacher[:, max(logits.shape[1] - model.first_l, 0) :] = torch.nan
    torch.manual_seed(job["torch_seed"])
    with torch.no_grad():
        unused = torch.allclose(model(labels, teacher), logits, rtol=1e-4, atol=1e-4)
    found = {"logits": logits.detach(), "slopes": slopes, "same": same, "next": drawn, "unused": unused}
    return {**found, "steps": steps}


def generated(config: dict[str, Any], seed: int, calls: list[dict[str, Any]], after: list[Any]) -> dict[str, Any]:
    """Pictures of each call, whether caches are off, labels and torch's generator as they are then; later logits.

    moved: whether torch's generator is elsewhere than before the call. kept: whether the settings are as they were.
    steps: see `_note_steps`.
    A call with "weights" comes after the model was filled from that seed. What is for training, prog_si and the drop
    rate, stands as if training went on; modes, and what is trained, are now these and now those, in parts others.
    """
    model = _model(config, seed)
    pictures, caches, labels, drawn = [], [], [], []
    moved, kept, steps = [], [], []
    model.prog_si, model.cond_drop_rate = 0, 1.0
    for call in calls:
        given = torch.tensor(call["label_B"]) if isinstance(call["label_B"], list) else call["label_B"]
        if "weights" in call:
            _fill(model, call["weights"])
        torch.manual_seed(call.get("torch_seed", 0))
        settings = {name: it for name, it in call.items() if name not in ("torch_seed", "label_B", "weights")}
        even, third = len(pictures) % 2 == 0, len(pictures) % 3 == 0
        model.train(even).head.requires_grad_(third)
        model.vae_proxy[0].train(third).requires_grad_(even)
        _part_apart(model)
        before, settings_before = torch.get_rng_state(), _settings(model)
        steps.append([])
        hook = _note_steps(model, steps[-1])
        made = model.autoregressive_infer_cfg(label_B=given, **settings)
        hook.remove()
        moved.append(not torch.equal(torch.get_rng_state(), before))
        kept.append(_settings(model) == settings_before)
        drawn.append(float(torch.rand(())))
        pictures.append(made.detach())
        caches.append(_caches_are_off(model))
        labels.append(given.tolist() if isinstance(given, torch.Tensor) else given)
        if made.requires_grad:
            raise RuntimeError("the pictures of generation require gradients")
    model.prog_si, model.cond_drop_rate = -1, 0.0
    with torch.no_grad():
        logits = model(*(torch.from_numpy(np.array(it)) for it in after))
    found = {"pictures": pictures, "caches": caches, "labels": labels, "logits": logits, "next": drawn}
    return {**found, "moved": moved, "kept": kept, "steps": steps}


def refused(config: dict[str, Any], label: int, prog_si: int) -> list[Any]:
    """The name of the error for labels or scales that do not exist, and whether caches are off after it."""
    model = _model(config, 1)
    model.prog_si = prog_si
    teacher = torch.zeros(1, model.L - model.first_l, config["z"])
    try:
        model(torch.tensor([label]), teacher)
        name = ""
    except Exception as problem:
        name = type(problem).__name__
    with contextlib.suppress(Exception):
        model.autoregressive_infer_cfg(1, torch.tensor([label]))
    return [name, _caches_are_off(model)]
