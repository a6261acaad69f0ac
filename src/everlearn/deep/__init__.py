"""Networks of one's own: the deep half of deep streaming learning. Needs torch.

networks.py      ResNet-18 and MobileNetV2, for small pictures and for large ones
pictures.py      folders, arrays and loaders as one array of pictures
augment.py       crops, mirror images and cut-outs, on the device
captured.py      a training step recorded once on a GPU, played back for every batch
descent.py       gradient descent through augmented pictures, the loop everything here shares
trainer.py       a network trained on base classes, with checkpoints that resume
checkpoint.py    the file of a run that was interrupted
embedding.py     a network as an embedder: saved, loaded, exported to ONNX
adapt.py         a network that exists, fitted to the first session: last block or low rank
head.py          a learner as the last layer of a network
streaming.py     images in, names out: the network in front of a streaming learner
consolidate.py   a network trained further on kept pictures, taken only if it helps
"""

from everlearn.errors import MissingPackage

try:
    import torch  # noqa: F401
except ImportError:
    raise MissingPackage(
        "everlearn.deep needs torch; install it with: pip install 'everlearn[torch]'"
    ) from None
