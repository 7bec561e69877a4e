"""The judge's own two methods: generation without caches, by the mask of training over all scales made so far."""

from __future__ import annotations

from typing import Any

import torch


def completed(base: Any, helpers: Any) -> Any:
    """The class VAR of the starter, with both methods."""

    class Completed(base):  # type: ignore[misc]
        noise: float = 0.0
        """Standard deviation of what is added to logits, to see how far rounding may carry."""

        def _through(self, start: Any, inputs: Any, end: int) -> Any:
            count = len(start)
            parts = [start[:, None] + self.pos_start[0]]
            if inputs is not None:
                parts.append(self.word_embed(inputs))
            x = torch.cat(parts, dim=1)[:, :end]
            x = x + self.lvl_embed.weight[self.lvl_1L[0, :end]] + self.pos_1LC[0, :end]
            for block in self.blocks:
                x = block(x, self.shared_ada_lin(start), self.attn_bias_for_masking[0, 0, :end, :end])
            logits = self.get_logits(x, start).view(count, end, -1)
            if self.noise:
                logits = logits + self.noise * torch.randn(logits.shape, generator=torch.Generator().manual_seed(end))
            return logits

        def forward(self, label_B: Any, teacher: Any) -> Any:
            end = self.begin_ends[self.prog_si][1]
            drop = torch.rand(len(label_B)) < self.cond_drop_rate
            labels = label_B.clone()
            labels[drop] = self.num_classes
            return self._through(self.class_emb(labels), None if self.prog_si == 0 else teacher, end)

        @torch.no_grad()
        def autoregressive_infer_cfg(
            self, B: int, label_B: Any, g_seed: Any = None, cfg: float = 1.5, top_k: int = 0, top_p: float = 0.0,
            more_smooth: bool = False,
        ) -> Any:  # fmt: skip
            rng = None if g_seed is None else self.rng.manual_seed(g_seed)
            if label_B is None:
                label_B = torch.randint(self.num_classes, (B,), generator=rng)
            labels = label_B if isinstance(label_B, torch.Tensor) else torch.full((B,), label_B)
            vae, sides = self.vae_proxy[0], self.patch_nums
            sure, none = self.class_emb(labels), self.class_emb.weight[-1].expand(B, -1)
            inputs, f_hat = [], torch.zeros(B, vae.z_channels, sides[-1], sides[-1])
            for step, (begin, end) in enumerate(self.begin_ends):
                ratio = step / (len(sides) - 1)
                known = torch.cat(inputs, dim=1) if inputs else None
                with_class, without = (self._through(it, known, end)[:, begin:] for it in (sure, none))
                logits = with_class + cfg * ratio * (with_class - without)
                vectors = vae.quantize.embedding(helpers.sample_top_k_top_p_(logits, top_k, top_p, rng))
                if more_smooth:
                    tau = max(0.27 * (1 - 0.95 * ratio), 0.005)
                    vectors = helpers.gumbel_softmax(logits * (1 + ratio), tau, rng) @ vae.quantize.embedding.weight
                map_ = vectors.permute(0, 2, 1).reshape(B, vae.z_channels, sides[step], sides[step])
                f_hat, following = vae.quantize.get_next_autoregressive_input(step, len(sides), f_hat, map_)
                inputs.append(following.flatten(2).permute(0, 2, 1))
            return vae.fhat_to_img(f_hat) * 0.5 + 0.5

    return Completed
