"""What comes in: checked where people hand it over, with a sentence when it is wrong."""

from __future__ import annotations

import torch
from torch import Tensor

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)


def check_tokens(tokens: Tensor, vocab: int, name: str = "tokens") -> Tensor:
    """(B, T) integers in [0, vocab), T > 0."""
    if not isinstance(tokens, Tensor):
        raise TypeError(
            f"{name}: wanted a tensor (batch, length) of token numbers, came {type(tokens).__name__}; use torch.tensor"
        )
    if tokens.ndim != 2:
        raise ValueError(f"{name}: wanted shape (batch, length), came {tuple(tokens.shape)}; add or drop a dimension")
    if tokens.dtype not in INTEGERS:
        raise TypeError(f"{name}: wanted integers, came {tokens.dtype}; convert with .long()")
    if tokens.shape[1] == 0:
        raise ValueError(
            f"{name}: wanted at least one token a row, came an empty sequence of shape {tuple(tokens.shape)}; "
            "begin with a BOS token"
        )
    # Reading the values would stall a GPU and break a compiled graph; on the CPU it is free.
    if not torch.compiler.is_compiling() and tokens.device.type == "cpu" and tokens.numel():
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= vocab:
            raise ValueError(
                f"{name}: wanted numbers from 0 to {vocab - 1}, came {low} to {high}; check the tokenizer against vocab"
            )
    return tokens.long()


def check_mask(mask: Tensor | None, like: Tensor, name: str = "padding") -> Tensor | None:
    """(B, T) booleans, True = real."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name}: wanted a tensor of booleans, True = real token, came {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name}: wanted booleans, True = real token, came {mask.dtype}; convert with .bool()")
    if mask.shape != like.shape:
        raise ValueError(
            f"{name}: wanted the tokens' shape {tuple(like.shape)}, came {tuple(mask.shape)}; one boolean per token"
        )
    return mask


def check_types(types: Tensor | None, tokens: Tensor, count: int) -> Tensor | None:
    """(B, T) integers in [0, count), for a model that has token types; what a model without says is its embedding's."""
    if types is None or count == 0:
        return types
    if types.shape != tokens.shape:
        raise ValueError(f"types: wanted the tokens' shape {tuple(tokens.shape)}, came {tuple(types.shape)}")
    return check_tokens(types, count, "types")


def check_rows(source: Tensor, target: Tensor) -> None:
    if len(source) != len(target):
        raise ValueError(
            f"source and target: wanted as many rows in both, came {len(source)} and {len(target)}; pair them up"
        )


def positions_of(tokens: Tensor, real: Tensor | None, start: Tensor | int = 0) -> Tensor:
    """Where each token stands among the real ones of its row, so that padding, left or right, moves nothing."""
    if real is None:
        return (torch.arange(tokens.shape[1], device=tokens.device) + start).reshape(-1, tokens.shape[1])
    return (real.long().cumsum(dim=1) - 1 + start).clamp(min=0)


def check_columns(
    numeric: Tensor | None, categories: Tensor | None, wanted: int, cardinalities: tuple[int, ...]
) -> None:
    """numeric (B, n) floats and categories (B, m) integers, each in its column's range."""
    for columns, count, name in ((numeric, wanted, "numeric"), (categories, len(cardinalities), "categories")):
        if (columns is None) != (count == 0):
            raise ValueError(
                f"{name}: wanted {count} columns, came {'none' if columns is None else tuple(columns.shape)}; leave "
                "out what the model does not have"
            )
        if columns is not None and (columns.ndim != 2 or columns.shape[1] != count):
            raise ValueError(f"{name}: wanted shape (rows, {count}), came {tuple(columns.shape)}")
    if numeric is not None and categories is not None and len(numeric) != len(categories):
        raise ValueError(f"wanted as many rows in both, came {len(numeric)} numeric and {len(categories)} categorical")
    if numeric is not None and not numeric.is_floating_point():
        raise TypeError(f"numeric: wanted floats, came {numeric.dtype}; convert with .float()")
    if categories is None:
        return
    if categories.dtype not in INTEGERS:
        raise TypeError(f"categories: wanted integers, came {categories.dtype}; encode the categories as 0, 1, ...")
    if not torch.compiler.is_compiling() and categories.device.type == "cpu" and categories.numel():
        low, high = categories.min(dim=0).values, categories.max(dim=0).values
        for column, cardinality in enumerate(cardinalities):
            if low[column] < 0 or high[column] >= cardinality:
                raise ValueError(
                    f"categories: wanted 0 to {cardinality - 1} in column {column}, came {int(low[column])} to "
                    f"{int(high[column])}"
                )


def rows_of_one_table(categories: Tensor, cardinalities: tuple[int, ...]) -> Tensor:
    """(B, m) numbers within each column -> numbers within one table that holds the columns one after the other."""
    starts = [sum(cardinalities[:column]) for column in range(len(cardinalities))]
    return categories + torch.tensor(starts, device=categories.device)
