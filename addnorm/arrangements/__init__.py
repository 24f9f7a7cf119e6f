"""The heart: residual + normalization designs, by name.

Read `base.py`, then `local.py`; every other file is one idea more.
"""

from addnorm.arrangements.base import Arrangement, Connection, Site, Stream, Sublayer
from addnorm.arrangements.bottom import B2T, TwoResidual
from addnorm.arrangements.compose import ByLayer, Rescaled
from addnorm.arrangements.dual import ResiDual
from addnorm.arrangements.gated import Concat, Gated
from addnorm.arrangements.history import DLCL, DLCLPost
from addnorm.arrangements.hyper import HyperConnections
from addnorm.arrangements.local import (
    Local,
    NoNormalisation,
    NoSkip,
    PostLN,
    PreLN,
    ResPost,
    Sandwich,
    Scaled,
    ScaledPost,
)
from addnorm.arrangements.norm_free import Fixup, ReZero, TFixup
from addnorm.arrangements.scaling import Admin, ByCount, DeepNorm, LiteralSum, Recursion, VarianceSum

CATALOGUE: dict[str, Arrangement] = {
    "post_ln": PostLN(),
    "pre_ln": PreLN(),
    "res_post": ResPost(),
    "sandwich": Sandwich(),
    "no_norm": NoNormalisation(),
    "no_skip": NoSkip(),
    "scaled": Scaled(),
    "gated": Gated(),
    "concat": Concat(),
    "two_residual": TwoResidual(),
    "rezero": ReZero(),
    "t_fixup": TFixup(),
    "admin": Admin(),
    "b2t": B2T(),
    "dlcl": DLCL(),
    "dlcl_post": DLCLPost(),
    "deep_norm": DeepNorm(),
    "resi_dual": ResiDual(),
    "hyper_connections": HyperConnections(),
    "mix_ln": ByLayer(),
}
"""Name -> the design with its paper's defaults. Open: add yours, and every model, check and picture knows it."""

__all__ = [
    "B2T",
    "CATALOGUE",
    "DLCL",
    "Admin",
    "Arrangement",
    "ByCount",
    "ByLayer",
    "Concat",
    "Connection",
    "DLCLPost",
    "DeepNorm",
    "Fixup",
    "Gated",
    "HyperConnections",
    "LiteralSum",
    "Local",
    "NoNormalisation",
    "NoSkip",
    "PostLN",
    "PreLN",
    "ReZero",
    "Recursion",
    "ResPost",
    "Rescaled",
    "ResiDual",
    "Sandwich",
    "Scaled",
    "ScaledPost",
    "Site",
    "Stream",
    "Sublayer",
    "TFixup",
    "TwoResidual",
    "VarianceSum",
]
