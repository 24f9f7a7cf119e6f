"""The subject's figures, drawn from live objects."""

from addnorm.arrangements import Arrangement
from addnorm.atlas.text import draw as draw_text
from addnorm.atlas.wiring import trace
from addnorm.models.build import Mode
from addnorm.models.build import design as by_name

__all__ = ["draw"]


def draw(design: str | Arrangement, mode: Mode = "encoder", depth: int = 6, width: int = 512, heads: int = 8) -> str:
    """A design's wiring as text, traced from its connections: `print(addnorm.draw("b2t"))`. Anybody's design."""
    return draw_text(trace(by_name(design), mode, depth, width, heads))
