"""addnorm: Transformers with the residual + normalization arrangement as a first-class choice.

    import addnorm
    model = addnorm.build("b2t", mode="encoder_decoder", depth=6, width=512)

Names are imported when first used, so that the command line answers before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from addnorm.arrangements import CATALOGUE, Arrangement, Connection, Site
    from addnorm.atlas import draw
    from addnorm.contract import check_arrangement
    from addnorm.init import calibrate, initialise
    from addnorm.models import BUNDLES, Beam, Greedy, Model, ModelSpec, Sample, build, make_spec
    from addnorm.spec import Spec, SpecError

_HOMES = {
    "BUNDLES": "addnorm.models",
    "Beam": "addnorm.models",
    "CATALOGUE": "addnorm.arrangements",
    "Arrangement": "addnorm.arrangements",
    "Connection": "addnorm.arrangements",
    "Greedy": "addnorm.models",
    "Model": "addnorm.models",
    "ModelSpec": "addnorm.models",
    "Sample": "addnorm.models",
    "Site": "addnorm.arrangements",
    "Spec": "addnorm.spec",
    "SpecError": "addnorm.spec",
    "build": "addnorm.models",
    "calibrate": "addnorm.init",
    "check_arrangement": "addnorm.contract",
    "draw": "addnorm.atlas",
    "initialise": "addnorm.init",
    "make_spec": "addnorm.models",
}

__all__ = [
    "BUNDLES",
    "CATALOGUE",
    "Arrangement",
    "Beam",
    "Connection",
    "Greedy",
    "Model",
    "ModelSpec",
    "Sample",
    "Site",
    "Spec",
    "SpecError",
    "__version__",
    "build",
    "calibrate",
    "check_arrangement",
    "draw",
    "initialise",
    "make_spec",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'addnorm' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
