from .fitting import Progress as Progress
from .fitting import embed as embed
from .fitting import fit as fit
from .sharded_model import Entry as Entry
from .sharded_model import ShardedModel as ShardedModel
from .unlearning import unlearn as unlearn

__all__: list[str]
