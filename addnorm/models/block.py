"""The block: the only one there is, for every mode and every design."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from addnorm.arrangements.base import Connection, Site, Stream
from addnorm.layers.context import Context
from addnorm.layers.part import Part


class Block(nn.Module):
    """Sub-layers compute, connections connect; they live under two prefixes and vary independently.

    blocks.3.sublayers.feed_forward.up.weight          the same name in every design
    blocks.3.connections.feed_forward.before.weight    the design's own
    """

    def __init__(
        self, sites: Mapping[str, Site], sublayers: Mapping[str, Part], connections: Mapping[str, Connection]
    ) -> None:
        super().__init__()
        self.sites = dict(sites)  # for birth and probes; forward does not look
        self.sublayers = nn.ModuleDict(sublayers)
        self.connections = nn.ModuleDict(connections)

    def forward(self, stream: Stream, context: Context) -> Stream:
        for name, sublayer in self.sublayers.items():
            stream = self.connections[name](stream, sublayer, context)
        return stream
