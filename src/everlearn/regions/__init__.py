"""Parts of pictures: boxes, the main thing, proposals, tracks."""

from everlearn.regions.boxes import Box
from everlearn.regions.looking import Region
from everlearn.regions.main_thing import main_thing
from everlearn.regions.proposals import Proposer

__all__ = ["Box", "Proposer", "Region", "main_thing"]
