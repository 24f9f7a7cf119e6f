"""Sight: who sees whom in one stack, worked out once per forward and handed to every layer."""

from __future__ import annotations

from torch import Tensor

from addnorm.layers.cache import Cache
from addnorm.layers.masks import Mask, Visibility, make_masks, with_bias
from addnorm.layers.part import Part
from addnorm.models.stack import Plan


class Sight(Part):
    def __init__(self, plan: Plan, visibility: Visibility) -> None:
        super().__init__()
        self.visibility = visibility
        windows = {window for content in plan.contents.values() for window in content.windows()}
        self.windows = sorted(windows, key=lambda window: window or 0)
        self.bias = plan.positions.bias(plan.heads, two_way=not visibility.causal)

    def forward(
        self, positions: Tensor, real: Tensor | None, prefix: Tensor | None, cache: Cache | None
    ) -> dict[int | None, Mask]:
        """positions (B or 1, T), real (B, T) of the tokens being read; keys are these, or all that the cache holds."""
        if cache is None:
            keys, fresh = positions, True
        else:
            keys, real, fresh = cache.positions[:, : cache.length], cache.real[:, : cache.length], False
        masks = make_masks(self.visibility, self.windows, positions, keys, real, prefix, fresh)
        bias = self.bias(positions, keys)
        if bias is not None:
            masks = {window: with_bias(mask, bias) for window, mask in masks.items()}
        return masks
