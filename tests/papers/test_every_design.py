"""No design without its formula: every name of the catalogue, as it stands there, against a reference from here."""

from __future__ import annotations

import pytest
import torch

from addnorm.arrangements import CATALOGUE
from tests.papers.stacks import DEPTH, Case, assert_follows, specimen
from tests.papers.test_admin import admin
from tests.papers.test_b2t import b2t
from tests.papers.test_deep_norm import alpha, deep_norm
from tests.papers.test_dlcl import dlcl, dlcl_post
from tests.papers.test_gated_and_concat import concat, gated
from tests.papers.test_hyper_connections import hyper_connections
from tests.papers.test_mix_ln import mix_ln
from tests.papers.test_norm_free import rezero, t_fixup
from tests.papers.test_post_ln import no_skip, post_ln
from tests.papers.test_pre_ln import no_norm, pre_ln, res_post, sandwich
from tests.papers.test_resi_dual import resi_dual
from tests.papers.test_scaled_skip import scaled
from tests.papers.test_two_residual import two_residual

CASE = Case("decoder beside an encoder", torch.float64)
REFERENCES = {
    "post_ln": post_ln,
    "pre_ln": pre_ln,
    "res_post": res_post,
    "sandwich": sandwich,
    "no_norm": no_norm,
    "no_skip": no_skip,
    "scaled": scaled(0.9),
    "gated": gated,
    "concat": concat,
    "two_residual": two_residual,
    "rezero": rezero,
    "t_fixup": t_fixup,
    "admin": admin,
    "b2t": b2t,
    "dlcl": dlcl,
    "dlcl_post": dlcl_post,
    "deep_norm": deep_norm(alpha(CASE.shape)),
    "resi_dual": resi_dual,
    "hyper_connections": hyper_connections,
    "mix_ln": mix_ln(0.25, DEPTH),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_default_is_the_formula(name: str) -> None:
    assert name in REFERENCES, f"write the formula of {name} again, from its paper, in a test of this folder"
    assert_follows(specimen(name, CASE, seed=20), REFERENCES[name])
