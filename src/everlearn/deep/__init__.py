"""Deep networks: training, adaptation, export and consolidation. Needs torch.

networks.py      ResNet-18 and MobileNetV2, for small pictures and for large ones
pictures.py      folders, arrays and loaders as one array of pictures
augment.py       crops, mirror images and cut-outs, on the device
captured.py      a training step as a CUDA graph
descent.py       gradient descent on augmented pictures, used by all kinds of training
trainer.py       trains a network on base classes, with checkpoints
checkpoint.py    the file of an interrupted run
embedding.py     a network as an embedder: saved, loaded, exported to ONNX
adapt.py         adapts an existing network to the first session: last block or low rank
head.py          a learner as the last layer of a network
streaming.py     a network in front of a streaming learner
consolidate.py   trains a network further on stored pictures, kept only if it helps
"""

from everlearn.errors import MissingPackage
from everlearn.interrupts import deferred_interrupts

try:
    with deferred_interrupts():
        import torch  # noqa: F401
except ImportError:
    raise MissingPackage(
        "everlearn.deep needs torch; install it with: pip install 'everlearn[torch]'"
    ) from None
