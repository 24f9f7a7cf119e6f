"""Dropout in four places, 0 by default."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from addnorm.spec import Spec

Rate = Annotated[float, Strict(), Field(ge=0.0, lt=1.0)]


class Dropout(Spec, family="dropout", kind="dropout"):
    embedding: Rate = 0.0
    """On the embedded input."""
    attention: Rate = 0.0
    """On the attention weights."""
    hidden: Rate = 0.0
    """Inside the feed-forward, after the non-linearity."""
    branch: Rate = 0.0
    """On each sub-layer's output: its last act, so that every design's formula stays the paper's formula."""

    @classmethod
    def everywhere(cls, rate: float) -> Dropout:
        return cls(embedding=rate, attention=rate, hidden=rate, branch=rate)
