"""Birth: base x gain x seed. Base from the model's Spec, gain from the design, seed from the parameter's name."""

from addnorm.init.bases import Base, Fairseq, Kaiming, Normal, SmallInit, T5Init, XavierNormal, XavierUniform
from addnorm.init.calibrate import calibrate
from addnorm.init.initialise import constrain, initialise

__all__ = [
    "Base",
    "Fairseq",
    "Kaiming",
    "Normal",
    "SmallInit",
    "T5Init",
    "XavierNormal",
    "XavierUniform",
    "calibrate",
    "constrain",
    "initialise",
]
