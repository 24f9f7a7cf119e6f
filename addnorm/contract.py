"""The contract: what every design must satisfy, as checks that anybody can run on their own.

    addnorm.check_arrangement(MyDesign())

Each check is a function of a design and a mode that raises ContractError with what was wanted and what came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

from addnorm.arrangements.base import Arrangement, Site
from addnorm.init.initialise import parts
from addnorm.layers.cache import Cache
from addnorm.layers.context import Context
from addnorm.layers.feed_forward import FeedForward
from addnorm.layers.masks import Mask
from addnorm.layers.norms import LayerNormModule, RMSNorm
from addnorm.layers.part import Linear
from addnorm.layers.positions import NoPositions
from addnorm.models.build import MODES, Mode, build, design, with_norm
from addnorm.models.encoder_decoder import EncoderDecoder
from addnorm.models.stack import Plan, Stack
from addnorm.spec import Spec, SpecError, nearest

Check = Callable[[Arrangement, Mode], None]

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2e-2}
"""Relative to the largest number compared, or to one where all are smaller."""
IDLE = 1e-12
"""A gradient below this is none."""
GRAPHS = 1
"""A whole model compiles to one graph, whatever its design."""


class ContractError(AssertionError):
    """A design that does not keep the contract."""


ALL_MODES: tuple[Mode, ...] = ("encoder", "decoder", "encoder_decoder")


def check_arrangement(name: str | Arrangement, modes: Iterable[Mode] = ALL_MODES) -> int:
    """Run every check on a design, in every mode; return how many ran. Raises ContractError at the first that fails."""
    subject, ran = design(name), 0
    for mode in modes:
        if mode not in MODES:
            raise SpecError(f"unknown mode {mode!r}: {nearest(mode, MODES)}")
        for title, check in CHECKS.items():
            try:
                check(subject, mode)
            except ContractError as error:
                raise ContractError(f"{subject.kind}, {mode}, {title}: {error}") from None
            except Exception as error:
                raise ContractError(
                    f"{subject.kind}, {mode}, {title}: wanted a result, came {type(error).__name__}: {error}"
                ) from error
            ran += 1
    return ran


# -- a small model to try things on ------------------------------------------------------------------------

VOCAB, WIDTH, HEADS, DEPTH = 13, 16, 2, 3


def subject_model(subject: Arrangement, mode: Mode, seed: int = 0, dropout: float = 0.0) -> Any:
    model = build(
        subject, mode=mode, vocab=VOCAB, width=WIDTH, heads=HEADS, depth=DEPTH, seed=seed, dropout=dropout
    )  # fmt: skip
    return model.double()


def example(mode: Mode, batch: int = 2, length: int = 6) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, VOCAB, (batch, length), generator=generator)
    target = torch.randint(0, VOCAB, (batch, length), generator=generator)
    return (tokens, target) if mode == "encoder_decoder" else (tokens,)


def scramble(model: nn.Module) -> None:
    """Move every parameter off its birth value: a wrong wire must not hide behind a zero or an identity."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))


def want(condition: bool, message: str) -> None:
    if not condition:
        raise ContractError(message)


def want_close(actual: Tensor, wanted: Tensor, what: str) -> None:
    actual, wanted = actual.detach(), wanted.detach()
    want(actual.shape == wanted.shape, f"{what}: wanted shape {tuple(wanted.shape)}, came {tuple(actual.shape)}")
    scale = max(1.0, float(wanted.abs().max()))
    apart = float((actual - wanted).abs().max()) / scale
    limit = TOLERANCE[actual.dtype]
    want(apart <= limit, f"{what}: wanted equal to {limit:g}, came {apart:.3g} apart")


def random_loss(output: Tensor) -> Tensor:
    """A fixed random projection: the mean square of a normalised output would have no gradient."""
    generator = torch.Generator().manual_seed(5)
    direction = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    return (output * direction).mean()


# -- the checks --------------------------------------------------------------------------------------------


def gives_the_right_shape(subject: Arrangement, mode: Mode) -> None:
    output = subject_model(subject, mode)(*example(mode))
    wanted = (2, 6, WIDTH if mode == "encoder" else VOCAB)
    want(tuple(output.shape) == wanted, f"wanted {wanted}, came {tuple(output.shape)}")
    want(bool(torch.isfinite(output).all()), "wanted finite numbers, came others")


def every_parameter_learns(subject: Arrangement, mode: Mode) -> None:
    """Within three backward passes with two updates between: zero-born branches open one pass later per nesting."""
    model, batch = subject_model(subject, mode), example(mode)
    sharpen(model)
    idle = {id(tensor) for _, _, part in parts(model) for tensor in part.idle()}
    largest = {name: 0.0 for name, _ in model.named_parameters()}
    for _ in range(3):
        model.zero_grad()
        random_loss(model(*batch)).backward()
        for name, parameter in model.named_parameters():
            want(parameter.grad is not None, f"{name} is not part of the computation: no gradient at all")
            largest[name] = max(largest[name], float(parameter.grad.abs().max()))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad / parameter.grad.norm().clamp(min=1e-6)
    for name, parameter in model.named_parameters():
        if id(parameter) in idle:
            want(largest[name] < IDLE, f"{name} is declared idle, yet its gradient reaches {largest[name]:.3g}")
        else:
            want(largest[name] > IDLE, f"{name} never gets a gradient; if that can be proven, yield it from idle()")


def sharpen(model: Any) -> None:
    """Attention near to uniform makes all rows alike, doubly exponentially so without skips (Dong et al. 2021,
    arXiv:2103.03404): what a query then learns is not nothing, but below any threshold."""
    with torch.no_grad():
        for _, _, part in parts(model):
            for role, tensor in part.weights():
                if role == "query":
                    tensor.mul_(8.0)


def never_mixes_positions(subject: Arrangement, mode: Mode) -> None:
    """With sub-layers that work row by row, changing row 2 changes row 2 alone."""
    slots = 3 if mode == "encoder_decoder" else 2
    names = ("self_attention", "feed_forward", "feed_forward_2")[:slots]
    side = "encoder" if mode == "encoder" else "decoder"
    other = DEPTH if mode == "encoder_decoder" else 0
    model = subject_model(subject, mode)
    dropout = model.spec.dropout
    contents = {name: FeedForward(hidden=8) for name in names}
    plan = Plan(side, subject, contents, WIDTH, HEADS, DEPTH, other, NoPositions(), dropout)  # type: ignore[arg-type]
    stack = Stack(plan).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
        x = torch.randn(2, 5, WIDTH, generator=generator, dtype=torch.float64)
        changed = x.clone()
        changed[:, 2] += 1.0
        context = Context(torch.arange(5)[None], {None: Mask()})
        moved = (stack(x, context) - stack(changed, context)).abs().amax(dim=(0, 2))
    others = torch.cat((moved[:2], moved[3:]))
    want(float(others.max()) == 0.0, f"a change of row 2 moved other rows by {float(others.max()):.3g}")
    want(float(moved[2]) > 0.0, "a change of row 2 did not reach row 2")


def keeps_nothing_between_calls(subject: Arrangement, mode: Mode) -> None:
    """Two streams that take turns at every connection come out as each would alone: nothing is stashed on a module."""
    model = subject_model(subject, mode)
    scramble(model)
    stack: Any = model.decoder if isinstance(model, EncoderDecoder) else model.stack
    generator = torch.Generator().manual_seed(17)
    inputs = [torch.randn(1, 2, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2)]
    with torch.no_grad():
        alone = []
        for x in inputs:
            stream = stack.open(x)
            for connection in (each for block in stack.blocks for each in block.connections.values()):
                h, stream = connection.read(stream)
                stream = connection.write(stream, torch.tanh(h))
            alone.append(stack.close(stream))
        streams = [stack.open(x) for x in inputs]
        for connection in (each for block in stack.blocks for each in block.connections.values()):
            read = [connection.read(stream) for stream in streams]
            streams = [connection.write(stream, torch.tanh(h)) for h, stream in read]
        for wanted, stream in zip(alone, streams, strict=True):
            want_close(stack.close(stream), wanted, "two streams taking turns")


def decodes_from_a_cache_as_from_the_whole(subject: Arrangement, mode: Mode) -> None:
    """Prefill of three tokens, then one by one; one row padded on the left."""
    if mode == "encoder":
        return
    model = subject_model(subject, mode).eval()
    scramble(model)
    *source, tokens = example(mode)
    real = torch.ones_like(tokens, dtype=torch.bool)
    real[0, :2] = False
    cache = Cache(len(tokens), tokens.shape[1])
    with torch.no_grad():
        if isinstance(model, EncoderDecoder):
            memory = model.encode(source[0])
            whole = model.decode(tokens, memory, None, real)
            pieces = [model.decode(t, memory, None, r, cache=cache) for t, r in in_pieces(tokens, real)]
        else:
            whole = model(tokens, real)
            pieces = [model(t, r, cache=cache) for t, r in in_pieces(tokens, real)]
    want_close(torch.cat(pieces, dim=1)[real], whole[real], "cached logits against the full forward's")


def in_pieces(tokens: Tensor, real: Tensor) -> list[tuple[Tensor, Tensor]]:
    cuts = [(0, 3), *((t, t + 1) for t in range(3, tokens.shape[1]))]
    return [(tokens[:, a:b], real[:, a:b]) for a, b in cuts]


def state_dict_round_trips(subject: Arrangement, mode: Mode) -> None:
    first, second = subject_model(subject, mode, seed=0), subject_model(subject, mode, seed=1)
    scramble(first)
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        a, b = first(*example(mode)), second(*example(mode))
    want(torch.equal(a, b), "a model loaded from another's state dict does not compute the same")


def spec_round_trips(subject: Arrangement, mode: Mode) -> None:
    """Through JSON, and through YAML where PyYAML is installed."""
    spec = subject_model(subject, mode).spec
    ways = [(spec.to_json, type(spec).from_json)]
    if find_spec("yaml") is not None:
        ways.append((spec.to_yaml, type(spec).from_yaml))
    for written, read in ways:
        again = read(written())
        want(again == spec, f"{read.__name__} gives another Spec than was written")
        want(again.fingerprint() == spec.fingerprint(), "equal Specs with different fingerprints")
    want(Spec.__hash__ is not None and hash(spec) == hash(spec.replace({})), "equal Specs with different hashes")


def starts_from_the_same_sublayers(subject: Arrangement, mode: Mode) -> None:
    """At one seed, sub-layer weights are Pre-LN's times the design's gain: what a paired comparison stands on."""
    mine, other = subject_model(subject, mode), dict(subject_model(design("pre_ln"), mode).named_parameters())
    gains = {id(tensor): by.gain(site, role) for by, site, part in parts(mine) for role, tensor in part.weights()}
    compared = 0
    for name, parameter in mine.named_parameters():
        if ".sublayers." in name:
            want(name in other, f"{name} is not a name of the Pre-LN model: a sub-layer's name depends on the design")
            wanted = (other[name].float() * gains.get(id(parameter), 1.0)).double()
            want_close(parameter.float(), wanted.float(), name)
            compared += 1
    want(compared > 0, "no sub-layer parameters found")


def has_no_parameter_without_dimensions(subject: Arrangement, mode: Mode) -> None:
    flat = [name for name, parameter in subject_model(subject, mode).named_parameters() if parameter.ndim == 0]
    want(not flat, f"sharding refuses 0-dimensional parameters; give shape (1,) to {', '.join(flat)}")


def gives_the_same_gradients_when_checkpointed(subject: Arrangement, mode: Mode) -> None:
    """Activation checkpointing runs every block twice: nothing may be remembered between calls, dropout included."""
    plain, saving = (subject_model(subject, mode, dropout=0.1).train() for _ in range(2))
    for model in (plain, saving):
        scramble(model)
    for module in saving.modules():
        if isinstance(module, Stack):
            for block in module.blocks:
                checkpointed(block)
    for model in (plain, saving):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            random_loss(model(*example(mode))).backward()
    for (name, a), (_, b) in zip(plain.named_parameters(), saving.named_parameters(), strict=True):
        want_close(b.grad, a.grad, f"gradient of {name}")


def checkpointed(block: nn.Module) -> None:
    forward = block.forward
    block.forward = lambda *args: checkpoint(forward, *args, use_reentrant=False)


def compiles_to_the_stated_number_of_graphs(subject: Arrangement, mode: Mode) -> None:
    model, batch = subject_model(subject, mode), example(mode)
    scramble(model)
    counter = CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=counter)
    output = compiled(*batch)
    random_loss(output).backward()
    torch._dynamo.reset()
    want(counter.frame_count == GRAPHS, f"wanted {GRAPHS} graph, came {counter.frame_count}")
    want_close(output, model(*batch), "compiled against eager")


def runs_in_bfloat16(subject: Arrangement, mode: Mode) -> None:
    """Under autocast and as .bfloat16(), forward and backward: finite, and near float32 at birth."""
    batch = example(mode)
    reference = subject_model(subject, mode).float()
    with torch.no_grad():
        wanted = reference(*batch)
    scale = max(1.0, float(wanted.abs().max()))
    for title, model, cast in (
        ("autocast", subject_model(subject, mode).float(), True),
        (".bfloat16()", subject_model(subject, mode).bfloat16(), False),
    ):
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            output = model(*batch)
        random_loss(output.float()).backward()
        apart = float((output.detach().float() - wanted).abs().max()) / scale
        want(apart <= 5 * TOLERANCE[torch.bfloat16], f"{title}: came {apart:.3g} away from float32")
        for name, parameter in model.named_parameters():
            want(bool(torch.isfinite(parameter.grad).all()), f"{title}: the gradient of {name} is not finite")


def ignores_padding(subject: Arrangement, mode: Mode) -> None:
    """Padding on either side moves no real row; a row of nothing but padding is finite, and moves no other."""
    model = subject_model(subject, mode)
    scramble(model)
    batch = example(mode)
    for training in (True, False):
        model.train(training)
        with torch.no_grad():
            wanted = model(*batch)
            for left, right in ((0, 3), (2, 0)):
                padded = [nn.functional.pad(tokens, (left, right), value=1) for tokens in batch]
                real = nn.functional.pad(torch.ones_like(batch[0], dtype=torch.bool), (left, right), value=False)
                masks = [real for _ in batch]
                output = model(*padded, *masks)
                want_close(output[real].view(wanted.shape), wanted, f"{left} pads left, {right} right")
            real = torch.ones_like(batch[0], dtype=torch.bool)
            real[1] = False
            output = model(*batch, *[real for _ in batch])
            want(bool(torch.isfinite(output).all()), "a fully padded row gives numbers that are not finite")
            want_close(output[0], wanted[0], "the row beside a fully padded one")


def has_no_privileged_basis(subject: Arrangement, mode: Mode) -> None:
    """Elhage et al. 2021: rotate every reader and writer of the stream; with RMS norms of unit gain nothing changes."""
    if not subject.basis_free:
        return
    norms = any(norm.family == "norm" and norm.kind != "no_norm" for norm in subject.walk())
    subject = with_norm(subject, RMSNorm()) if norms else subject
    model = build(
        subject, mode=mode, vocab=VOCAB, width=WIDTH, heads=HEADS, depth=DEPTH, positions="rotary"
    ).double()  # fmt: skip
    open_zero_born(model)
    batch = example(mode)
    rotation = orthogonal(keep_mean=any(isinstance(module, LayerNormModule) for module in model.modules()))
    with torch.no_grad():
        before = model(*batch)
        rotate(model, rotation)
        after = model(*batch)
    wanted = before @ rotation if mode == "encoder" else before
    want_close(after, wanted, "after a rotation of every reader and writer")


def orthogonal(keep_mean: bool) -> Tensor:
    """A random rotation of the features; one that leaves their mean alone where a LayerNorm takes it away."""
    generator = torch.Generator().manual_seed(13)
    size = WIDTH - 1 if keep_mean else WIDTH
    rotation, _ = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    if not keep_mean:
        return rotation
    start = torch.eye(WIDTH, dtype=torch.float64)
    start[:, 0] = 1.0
    basis, _ = torch.linalg.qr(start)  # its first column is the direction of the mean
    return basis @ torch.block_diag(torch.ones(1, 1, dtype=torch.float64), rotation) @ basis.T


def open_zero_born(model: Any) -> None:
    """A branch born zero would hide what happens inside it; one number per branch has no direction."""
    for _, _, part in parts(model):
        for tensor, value in part.constants():
            if tensor.numel() == 1 and not isinstance(value, Tensor):
                tensor.data.fill_(0.5)
        if isinstance(part, Linear) and part.bias is not None:
            part.bias.data.copy_(torch.linspace(-0.5, 0.5, len(part.bias)))


def rotate(model: Any, rotation: Tensor) -> None:
    """x -> x Q: tables and readers W -> W Q, writers W -> Q' W, their biases b -> b Q."""
    seen: set[int] = set()
    for _, _, part in parts(model):
        for role, tensor in part.weights():
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            if role in ("output", "down"):
                tensor.copy_(rotation.T @ tensor)
                if isinstance(part, Linear) and part.bias is not None:
                    part.bias.copy_(part.bias @ rotation)
            elif role != "memory":
                tensor.copy_(tensor @ rotation)


def says_where_it_sits(subject: Arrangement, mode: Mode) -> None:
    """Gains and numbers are finite at every site, and the stream's view is the width of the model."""
    model = subject_model(subject, mode)
    for by, site, part in parts(model):
        for role, _ in part.weights():
            gain = by.gain(site, role)
            want(isinstance(gain, float) and 0.0 <= gain < 1e3, f"gain of {role} at {place(site)} is {gain!r}")
            rate = by.rate(site, role)
            want(isinstance(rate, float | int) and rate > 0.0, f"rate of {role} at {place(site)} is {rate!r}")
    stack: Any = model.decoder if isinstance(model, EncoderDecoder) else model.stack
    x = torch.ones(1, 2, WIDTH, dtype=torch.float64)
    connection = next(iter(stack.blocks[0].connections.values()))
    view = connection.view(stack.open(x))
    want(tuple(view.shape) == (1, 2, WIDTH), f"view(stream): wanted {(1, 2, WIDTH)}, came {tuple(view.shape)}")


def place(site: Site) -> str:
    return f"{site.side} layer {site.layer} {site.kind}"


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        gives_the_right_shape,
        never_mixes_positions,
        keeps_nothing_between_calls,
        every_parameter_learns,
        decodes_from_a_cache_as_from_the_whole,
        state_dict_round_trips,
        spec_round_trips,
        starts_from_the_same_sublayers,
        has_no_parameter_without_dimensions,
        gives_the_same_gradients_when_checkpointed,
        compiles_to_the_stated_number_of_graphs,
        runs_in_bfloat16,
        ignores_padding,
        has_no_privileged_basis,
        says_where_it_sits,
    )
}
