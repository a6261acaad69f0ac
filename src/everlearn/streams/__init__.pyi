from .examples import DataSet as DataSet
from .examples import Examples as Examples
from .orderings import alternating as alternating
from .orderings import balanced_then_rare as balanced_then_rare
from .orderings import class_batches as class_batches
from .orderings import class_iid as class_iid
from .orderings import class_instance as class_instance
from .orderings import iid as iid
from .orderings import instance as instance
from .sources import from_loader as from_loader
from .sources import image_folder as image_folder
from .sources import read_images as read_images
from .sources import split_folders as split_folders

__all__: list[str]
