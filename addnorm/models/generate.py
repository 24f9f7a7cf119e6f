"""Generation over a static cache: greedy, sampling, beam search.

Right for every design without a line for any, because connections are position-wise: the same forward serves training,
prefill and decoding. Models offer it as `model.generate(...)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field, Strict
from torch import Tensor

from addnorm.layers.cache import Cache
from addnorm.layers.embeddings import NoHead
from addnorm.models.model import TextSpec
from addnorm.spec import Count, Float, Int, Positive, Spec

Read = Callable[[Tensor, Tensor, Cache], Tensor]
"""tokens (B, T), real (B, T), cache -> logits (B, T, vocab): the model, going on where the cache stands."""


class Generated(NamedTuple):
    tokens: Tensor  # (B, L): what was generated, its EOS included, then padding
    lengths: Tensor  # (B,): how many of them count
    scores: Tensor  # (B,): sum of log-probabilities; beam search: over length^penalty


class Start(NamedTuple):
    """A batch about to be continued."""

    tokens: Tensor  # (B, T), padded on the left, so that every row goes on in the same column
    real: Tensor  # (B, T)
    max_new: int
    eos: int | None
    pad: int


class Search(Spec, family="search"):
    @property
    def beams(self) -> int:
        """How many rows of a batch one prompt takes."""
        return 1

    @abstractmethod
    def run(self, read: Read, start: Start, cache: Cache) -> Generated: ...


# -- one row per prompt ------------------------------------------------------------------------------------


class Greedy(Search, kind="greedy"):
    """The likeliest token, every time."""

    def run(self, read: Read, start: Start, cache: Cache) -> Generated:
        return one_by_one(read, start, cache, lambda logits: logits.argmax(dim=-1))


class Sample(Search, kind="sample"):
    """A token at random: logits over temperature, then the top_k likeliest, then the fewest that reach top_p."""

    temperature: Positive = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Strict(), Field(gt=0.0, le=1.0)] | None = None
    seed: Int = 0

    def run(self, read: Read, start: Start, cache: Cache) -> Generated:
        generator = torch.Generator(start.tokens.device).manual_seed(self.seed)

        def choose(logits: Tensor) -> Tensor:
            chances = torch.softmax(self.narrow(logits / self.temperature), dim=-1)
            return torch.multinomial(chances, 1, generator=generator)[:, 0]

        return one_by_one(read, start, cache, choose)

    def narrow(self, logits: Tensor) -> Tensor:
        """-inf for every token that must not be chosen; the likeliest always may."""
        if self.top_k is not None:
            least = logits.topk(min(self.top_k, logits.shape[-1])).values[:, -1:]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p is not None and self.top_p < 1.0:
            ordered, order = logits.sort(dim=-1, descending=True)
            chances = ordered.softmax(dim=-1)
            before = chances.cumsum(dim=-1) - chances  # what the likelier ones reach without this one
            unneeded = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= self.top_p)
            logits = logits.masked_fill(unneeded, float("-inf"))
        return logits


def one_by_one(read: Read, start: Start, cache: Cache, choose: Callable[[Tensor], Tensor]) -> Generated:
    tokens, real = start.tokens, start.real
    rows = len(tokens)
    done = torch.zeros(rows, dtype=torch.bool, device=tokens.device)
    lengths = torch.zeros(rows, dtype=torch.long, device=tokens.device)
    scores = torch.zeros(rows, device=tokens.device)
    written: list[Tensor] = []
    for _ in range(start.max_new):
        logits = wide(read(tokens, real, cache)[:, -1])
        chosen = choose(logits)
        said = logits.log_softmax(dim=-1).gather(-1, chosen[:, None])[:, 0]
        scores = scores + said.masked_fill(done, 0.0)
        chosen = chosen.masked_fill(done, start.pad)
        written.append(chosen)
        lengths = lengths + ~done
        # A finished row goes on as padding, which no row sees.
        tokens, real = chosen[:, None], ~done[:, None]
        if start.eos is not None:
            done = done | (chosen == start.eos)
            if bool(done.all()):
                break
    return Generated(torch.stack(written, dim=1), lengths, scores)


def wide(logits: Tensor) -> Tensor:
    """float32 at least: half precision cannot tell likely tokens apart."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


# -- several rows per prompt -------------------------------------------------------------------------------

NEVER = float("-inf")
"""The score of what is no answer and no beginning of one."""


class Beam(Search, kind="beam"):
    """Beam search: the `width` likeliest beginnings are kept, finished ones ranked by score / length^length_penalty.

    early_stopping   True: stop once `width` are finished; False: once no beginning can, at its present length, beat the
                     worst of them; "never": once none can at any length. The rules of Hugging Face's `generate`.
    """

    width: Count = 4
    length_penalty: Float = 1.0
    early_stopping: Annotated[bool, Strict()] | Literal["never"] = False

    @property
    def beams(self) -> int:
        return self.width

    def run(self, read: Read, start: Start, cache: Cache) -> Generated:
        rows, width, device = len(start.tokens) // self.width, self.width, start.tokens.device
        tokens, real = start.tokens, start.real  # (rows * width, T): each prompt `width` times
        # The copies are equal: only the first may begin, or all beams would stay equal.
        running = torch.full((rows, width), NEVER, device=device)
        running[:, 0] = 0.0
        alive = torch.full((rows, width, start.max_new), start.pad, device=device)
        finished = alive.clone()
        lengths = torch.zeros(rows, width, dtype=torch.long, device=device)
        scores = torch.full((rows, width), NEVER, device=device)
        is_finished = torch.zeros(rows, width, dtype=torch.bool, device=device)
        open_rows = torch.ones(rows, dtype=torch.bool, device=device)
        for step in range(start.max_new):
            said = wide(read(tokens, real, cache)[:, -1]).log_softmax(dim=-1)
            running, scores = running.to(said.dtype), scores.to(said.dtype)
            vocab = said.shape[-1]
            reached = (running[..., None] + said.view(rows, width, vocab)).flatten(1)  # (rows, width * vocab)
            # Twice as many as beams: even if every beam ends here, `width` beginnings go on.
            best, place = reached.topk(min(2 * width, reached.shape[1]), dim=1)
            parent, token = place // vocab, place % vocab
            candidates = alive.gather(1, parent[..., None].expand(-1, -1, start.max_new)).clone()
            candidates[:, :, step] = token
            ends = torch.full_like(token, step == start.max_new - 1, dtype=torch.bool)
            if start.eos is not None:
                ends = ends | (token == start.eos)

            # Those that end, if they are among the `width` best, join the finished.
            counts = ends & (best > NEVER) & open_rows[:, None]
            counts[:, width:] = False
            if self.early_stopping is True:
                counts = counts & ~is_finished.all(dim=1, keepdim=True)
            final = torch.where(counts, best / (step + 1) ** self.length_penalty, NEVER)
            scores, order = torch.cat((scores, final), dim=1).topk(width, dim=1)
            pool = torch.cat((finished, candidates), dim=1)
            finished = pool.gather(1, order[..., None].expand(-1, -1, start.max_new))
            lengths = torch.cat((lengths, torch.full_like(token, step + 1)), dim=1).gather(1, order)
            is_finished = torch.cat((is_finished, counts), dim=1).gather(1, order)

            # Those that do not, go on.
            running, order = torch.where(ends, NEVER, best).topk(width, dim=1)
            alive = candidates.gather(1, order[..., None].expand(-1, -1, start.max_new))
            parent, token = parent.gather(1, order), token.gather(1, order)
            open_rows = open_rows & self._can_improve(running, scores, is_finished, step + 1, start.max_new)
            if not bool(open_rows.any()) or (self.early_stopping is True and bool(is_finished.all())):
                break
            rows_of = torch.arange(rows, device=device)[:, None] * width + parent
            cache.reorder(rows_of.flatten())
            tokens = token.reshape(-1, 1)
            real = torch.ones_like(tokens, dtype=torch.bool)
        length = int(lengths[:, 0].max())
        return Generated(finished[:, 0, :length], lengths[:, 0], scores[:, 0])

    def _can_improve(self, running: Tensor, scores: Tensor, is_finished: Tensor, length: int, longest: int) -> Tensor:
        """Per row: could the best beginning, if it ended, beat the worst finished one?"""
        hopeful = longest if self.early_stopping == "never" and self.length_penalty > 0.0 else length
        best_possible = running[:, 0] / hopeful**self.length_penalty
        worst = torch.where(is_finished, scores, NEVER).min(dim=1).values
        return best_possible > worst


# -- before and around a search ----------------------------------------------------------------------------


def begin(
    prompts: Tensor | Sequence[Sequence[int] | Tensor],
    padding: Tensor | None,
    max_new: int,
    eos: int | None,
    pad: int,
    device: torch.device,
) -> Start:
    """Prompts of any lengths as one batch: a list of token lists, or (B, T) with a padding mask, True = real."""
    if not isinstance(max_new, int) or isinstance(max_new, bool) or max_new < 1:
        raise ValueError(f"generate: wanted max_new as an integer of at least 1, came {max_new!r}")
    if isinstance(prompts, Tensor):
        if prompts.ndim != 2 or (padding is not None and padding.shape != prompts.shape):
            shapes = f"{tuple(prompts.shape)} with padding {None if padding is None else tuple(padding.shape)}"
            raise ValueError(f"generate: wanted prompts (batch, length) and padding of the same shape, came {shapes}")
        kept = torch.ones_like(prompts, dtype=torch.bool) if padding is None else padding.bool()
        if prompts.is_floating_point():
            raise TypeError(f"generate: wanted integers as tokens, came {prompts.dtype}; convert with .long()")
        rows = [row[mask].tolist() for row, mask in zip(prompts, kept, strict=True)]
    elif not isinstance(prompts, Sequence) or isinstance(prompts, str):
        raise TypeError(f"generate: wanted a list of prompts, each a list of tokens, came {type(prompts).__name__}")
    elif padding is not None:
        raise ValueError("generate: padding goes with prompts as a tensor; a list of prompts needs none")
    else:
        rows = [_token_list(row) for row in prompts]
    if not rows:
        raise ValueError("generate: wanted at least one prompt, came none")
    longest = max(map(len, rows))
    tokens = torch.tensor([[pad] * (longest - len(row)) + row for row in rows], dtype=torch.long, device=device)
    gaps = torch.tensor([longest - len(row) for row in rows], device=device)
    real = torch.arange(longest, device=device) >= gaps[:, None]
    return Start(tokens.reshape(len(rows), longest), real, max_new, eos, pad)


def check_search(search: Search | str | None, spec: TextSpec, eos: int | None, pad: int) -> Search:
    """A search by name or as it is, for a model that can generate, with special tokens that it knows."""
    if isinstance(spec.head, NoHead):
        raise ValueError("generate: this model has no head, and says nothing of tokens; build it with head='tied_head'")
    for name, token in (("eos", eos), ("pad", pad)):
        if token is not None and (not isinstance(token, int) or not 0 <= token < spec.vocab):
            raise ValueError(f"generate: wanted {name} from 0 to {spec.vocab - 1}, came {token}; check the tokenizer")
    return Greedy() if search is None else Search.parse(search)


def _token_list(row: Sequence[int] | Tensor) -> list[int]:
    tokens = row.tolist() if isinstance(row, Tensor) else row
    if not isinstance(tokens, Sequence) or isinstance(tokens, str):
        raise TypeError(f"generate: wanted each prompt to be a list of tokens, came {row!r}; put it into a list")
    strange = [token for token in tokens if not isinstance(token, Integral) or isinstance(token, bool)]
    if strange:
        raise TypeError(f"generate: wanted integers as tokens, came {strange[0]!r}; tokenize the text first")
    return [int(token) for token in tokens]


def repeat(start: Start, times: int) -> Start:
    """Each prompt `times` times, side by side."""
    return start._replace(
        tokens=start.tokens.repeat_interleave(times, dim=0), real=start.real.repeat_interleave(times, dim=0)
    )
