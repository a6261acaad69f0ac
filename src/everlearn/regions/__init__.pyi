from .boxes import Box as Box
from .looking import Region as Region
from .main_thing import main_thing as main_thing
from .proposals import Proposer as Proposer

__all__: list[str]
