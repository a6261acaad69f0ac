from .boxes import Box as Box
from .main_thing import main_thing as main_thing
from .proposals import Proposer as Proposer
from .region_embedder import Region as Region

__all__: list[str]
