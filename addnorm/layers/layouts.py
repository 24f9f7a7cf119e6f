"""Layout: which sub-layers a block holds, in which order. The keys are the sub-layers' names in the model."""

from __future__ import annotations

from abc import abstractmethod

from addnorm.layers.parallel import Parallel
from addnorm.layers.sublayer import SublayerSpec
from addnorm.spec import Spec, SpecError


class Layout(Spec, family="layout"):
    @abstractmethod
    def contents(
        self, attention: SublayerSpec, cross_attention: SublayerSpec | None, feed_forward: SublayerSpec
    ) -> dict[str, SublayerSpec]:
        """cross_attention is None outside a decoder that has an encoder."""


class OneByOne(Layout, kind="one_by_one"):
    """Attention, then cross-attention where there is an encoder, then feed-forward."""

    def contents(
        self, attention: SublayerSpec, cross_attention: SublayerSpec | None, feed_forward: SublayerSpec
    ) -> dict[str, SublayerSpec]:
        middle = {} if cross_attention is None else {"cross_attention": cross_attention}
        return {"self_attention": attention, **middle, "feed_forward": feed_forward}


class AttentionOnly(Layout, kind="attention_only"):
    """No feed-forward (Sukhbaatar et al. 2019: persistent memory takes its part)."""

    def contents(
        self, attention: SublayerSpec, cross_attention: SublayerSpec | None, feed_forward: SublayerSpec
    ) -> dict[str, SublayerSpec]:
        middle = {} if cross_attention is None else {"cross_attention": cross_attention}
        return {"self_attention": attention, **middle}


class SideBySide(Layout, kind="side_by_side"):
    """Attention and feed-forward read the same input and are added together (GPT-J, PaLM)."""

    def contents(
        self, attention: SublayerSpec, cross_attention: SublayerSpec | None, feed_forward: SublayerSpec
    ) -> dict[str, SublayerSpec]:
        if cross_attention is not None:
            raise SpecError("layout side_by_side: no form with cross-attention is known; use one_by_one")
        return {"parallel": Parallel(parts=(attention, feed_forward))}
