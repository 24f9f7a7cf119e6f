"""The constants of the papers by depth, to the four decimals of the published formulas.

A skip's constant is not read off the design but measured: a zero branch and no norm leave constant * x.
"""

from __future__ import annotations

import pytest
import torch

from addnorm.arrangements import Admin, Arrangement, ByCount, DeepNorm, Fixup, Rescaled, Site, TFixup
from addnorm.layers.norms import NoNorm

DECIMALS = 0.5e-4 + 1e-9  # half a unit in the fourth decimal, and nothing for a tie to stumble over


def place(side: str, depth: int, other_depth: int = 0, kind: str = "self_attention") -> Site:
    slots = 3 if side == "decoder" and other_depth else 2
    return Site(side, kind, 0, 0, slots, depth, other_depth, 4, 2)


def skip_constant(design: Arrangement, site: Site) -> float:
    connection = design.connect(site)
    with torch.no_grad():
        for parameter, value in connection.constants():
            parameter.fill_(value)
        for module in connection.children():
            for parameter, value in module.constants():
                parameter.fill_(value)
        _, stream = connection.read(torch.ones(1, 1, 4))
        return connection.write(stream, torch.zeros(1, 1, 4)).mean().item()


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(
    ("depth", "alpha", "beta"),
    [
        (6, 1.8612, 0.3799),
        (12, 2.2134, 0.3195),
        (18, 2.4495, 0.2887),
        (24, 2.6321, 0.2686),
        (32, 2.8284, 0.2500),
        (50, 3.1623, 0.2236),
        (100, 3.7606, 0.1880),
        (200, 4.4721, 0.1581),
        (1000, 6.6874, 0.1057),
    ],
)
def test_deep_norm_of_a_single_stack(side: str, depth: int, alpha: float, beta: float) -> None:
    site = place(side, depth)
    assert skip_constant(DeepNorm(norm=NoNorm()), site) == pytest.approx(alpha, abs=DECIMALS)
    assert DeepNorm().gain(site, "value") == pytest.approx(beta, abs=DECIMALS)


@pytest.mark.parametrize(
    ("depth", "encoder_alpha", "encoder_beta", "decoder_alpha", "decoder_beta"),
    [
        (6, 1.4179, 0.4970, 2.0598, 0.3433),
        (12, 1.7609, 0.4002, 2.4495, 0.2887),
        (18, 1.9987, 0.3526, 2.7108, 0.2608),
        (50, 2.7505, 0.2562, 3.4996, 0.2021),
        (100, 3.4157, 0.2063, 4.1618, 0.1699),
        (500, 5.6482, 0.1248, 6.2233, 0.1136),
    ],
)
def test_deep_norm_of_an_encoder_decoder(
    depth: int, encoder_alpha: float, encoder_beta: float, decoder_alpha: float, decoder_beta: float
) -> None:
    """One public library has 1.15 in place of the encoder's 0.87: 0.6569 at depth 6, where the paper has 0.4970."""
    for side, alpha, beta in (("encoder", encoder_alpha, encoder_beta), ("decoder", decoder_alpha, decoder_beta)):
        site = place(side, depth, depth)
        assert skip_constant(DeepNorm(norm=NoNorm()), site) == pytest.approx(alpha, abs=DECIMALS)
        for role in ("value", "output", "up", "down"):
            assert DeepNorm().gain(site, role) == pytest.approx(beta, abs=DECIMALS)


def test_deep_norm_of_an_encoder_decoder_takes_each_depth_in_its_place() -> None:
    """alpha_e = 0.81 (N^4 M)^(1/16): with N = 12 and M = 3 the two depths cannot be exchanged unnoticed."""
    encoder, decoder = place("encoder", 12, 3), place("decoder", 3, 12)
    assert skip_constant(DeepNorm(norm=NoNorm()), encoder) == pytest.approx(0.81 * (12**4 * 3) ** (1 / 16), abs=1e-6)
    assert DeepNorm().gain(encoder, "up") == pytest.approx(0.87 * (12**4 * 3) ** (-1 / 16), rel=1e-12)
    assert skip_constant(DeepNorm(norm=NoNorm()), decoder) == pytest.approx(9**0.25, abs=1e-6)
    assert DeepNorm().gain(decoder, "up") == pytest.approx(36**-0.25, rel=1e-12)


@pytest.mark.parametrize(
    ("depth", "encoder", "decoder"),
    [(6, 0.4281, 0.3689), (12, 0.3600, 0.3102), (50, 0.2520, 0.2171), (100, 0.2119, 0.1826), (200, 0.1782, 0.1535)],
)
def test_t_fixup(depth: int, encoder: float, decoder: float) -> None:
    for role in ("value", "output", "up", "down"):
        assert TFixup().gain(place("encoder", depth, depth), role) == pytest.approx(encoder, abs=DECIMALS)
        assert TFixup().gain(place("decoder", depth, depth), role) == pytest.approx(decoder, abs=DECIMALS)
    # Both embeddings follow (9 depth)^(-1/4), the encoder's too.
    for side in ("encoder", "decoder"):
        site = place(side, depth, depth, kind="embedding")
        assert TFixup().gain(site, "embedding") == pytest.approx(decoder, abs=DECIMALS)


@pytest.mark.parametrize(
    ("side", "depth", "other_depth", "log", "constant"),
    [
        ("encoder", 6, 0, 2.0170, 3.4641),
        ("decoder", 12, 0, 2.6013, 4.8990),
        ("encoder", 12, 5, 2.6013, 4.8990),
        ("decoder", 12, 5, 3.0408, 6.0),  # three sub-layers a layer: 36 of them
        ("encoder", 50, 0, 4.5700, 10.0),
        ("decoder", 100, 0, 6.0746, 14.1421),
    ],
)
def test_admin_by_count(side: str, depth: int, other_depth: int, log: float, constant: float) -> None:
    site = place(side, depth, other_depth)
    for growth, omega in (("log", log), ("constant", constant), ("linear", 1.0)):
        design = Admin(norm=NoNorm(), profile=ByCount(growth=growth))
        assert skip_constant(design, site) == pytest.approx(omega, abs=DECIMALS)


def test_fixup_of_six_and_six_layers() -> None:
    """30 branches; m = 4 matrices in attention (query and key among them), 2 in the feed-forward."""
    for side in ("encoder", "decoder"):
        site = place(side, 6, 6)
        for role in ("query", "key", "value"):
            assert Fixup().gain(site, role) == pytest.approx(0.5673, abs=DECIMALS)
        assert Fixup().gain(site, "up") == pytest.approx(0.1826, abs=DECIMALS)
        for role in ("output", "down", "head"):
            assert Fixup().gain(site, role) == 0.0


def test_rescaled_by_depth() -> None:
    """GPT-2: every projection back into the stream over sqrt(2 N)."""
    for side in ("encoder", "decoder"):
        for role in ("output", "down"):
            assert Rescaled().gain(place(side, 12), role) == pytest.approx(24**-0.5, rel=1e-12)
        for role in ("query", "key", "value", "up", "gate", "embedding", "head"):
            assert Rescaled().gain(place(side, 12), role) == 1.0
