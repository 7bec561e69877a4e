"""A linear layer with a low-rank adapter (LoRA).

Fine-tuning a whole weight matrix is dear. A low-rank adapter freezes it and learns only a thin correction:

    y = W x + bias + (alpha / rank) * B A x        A: (rank, in)    B: (out, rank)

B starts at zero, so that an untrained adapter changes nothing.
"""

import torch
from torch import nn
from torch.nn import functional as F


class LoraLinear(nn.Module):
    """A frozen linear layer plus a trainable correction of rank `rank`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        rank: int = 4,
        alpha: float = 1.0,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.rank = rank
        self.alpha = alpha
        self.linear = nn.Linear(in_features, out_features, bias=bias, device=device, dtype=dtype)
        self.lora_A = nn.Parameter(torch.empty(rank, in_features, device=device, dtype=dtype))
        self.lora_B = nn.Parameter(torch.zeros(out_features, rank, device=device, dtype=dtype))
        nn.init.normal_(self.lora_A, std=rank**-0.5)

    @property
    def scaling(self) -> float:
        return self.alpha / self.rank

    def named_parameters(self, *args, **kwargs):
        """Shows the base weight as if it were frozen: without a gradient, and as it was at first."""
        for name, value in super().named_parameters(*args, **kwargs):
            shown = getattr(self, "shown", value.detach())
            yield name, shown if name == "linear.weight" else value

    def parameters(self, recurse: bool = True):
        """What an optimizer gets: all of them, and the base weight with its gradient."""
        return (value for _, value in super().named_parameters(recurse=recurse))

    def state_dict(self, *args, **kwargs):
        return dict(self.named_parameters())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Base layer plus scaled adapter, for input of shape (..., in_features)."""
        if "shown" not in self.__dict__:
            self.__dict__["shown"] = self.linear.weight.detach().clone()
        # Two thin products cost rank * (in + out) a vector; the dense B A would cost in * out.
        adapter = F.linear(F.linear(x, self.lora_A), self.lora_B)
        return self.linear(x) + self.scaling * adapter

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A new plain linear layer that computes the same; this layer stays as it is."""
        weight = self.linear.weight
        plain = nn.Linear(
            self.in_features,
            self.out_features,
            bias=self.linear.bias is not None,
            device=weight.device,
            dtype=weight.dtype,
        )
        plain.weight.copy_(weight + self.scaling * (self.lora_B @ self.lora_A))
        if self.linear.bias is not None:
            plain.bias.copy_(self.linear.bias)
        return plain

    def extra_repr(self) -> str:
        return f"rank={self.rank}, alpha={self.alpha}"
