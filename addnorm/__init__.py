"""addnorm: Transformers with the residual + normalization arrangement as a first-class choice."""

__version__ = "0.1.0"
