"""A learner as the last layer of a network.

A linear learner is at any time one matrix and one vector:

    logits = z Wᵀ + b,    softmax(logits) = predict_proba(z)

with W and b those of ``linear_head``, divided by the learner's temperature. They are read from the
learner at the first use after it was taught. Gradients flow through them to the layers before; the
learner itself is trained by its own rule, never by gradients.
"""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from everlearn.persistence import dumps, loads


class LearnerHead(nn.Module):
    """The last layer of a network, trained like a learner: example by example, without gradients.

    A row costs O(d K); the first call after learning also computes W, O(d³ + K d²) for
    ``StreamingLDA`` and ``RecursiveRLSC``.

    Parameters
    ----------
    learner : a linear everlearn classifier
        ``StreamingLDA``, ``RecursiveRLSC``, ``NearestClassMean``, …; trained in place. Other kinds
        are refused with ``NotExportable`` at the first use.

    Notes
    -----
    *Promises*: ``softmax`` of the output is the learner's ``predict_proba``, up to the precision of
    the features. ``state_dict`` holds the learner, as written by :func:`everlearn.save`, without
    code. There are no parameters, so an optimiser does not change it.

    Teach through :meth:`learn`; after teaching the learner itself call :meth:`refresh`.

    Examples
    --------
    >>> import torch
    >>> from everlearn import StreamingLDA
    >>> from everlearn.deep.head import LearnerHead
    >>> head = LearnerHead(StreamingLDA())
    >>> features = torch.tensor([[0.0, 0.0], [0.1, 0.2], [3.0, 3.0], [3.1, 2.8]])
    >>> network = torch.nn.Sequential(torch.nn.Identity(), head.learn(features, list("aabb")))
    >>> network(torch.tensor([[0.0, 0.3]])).argmax(dim=1)
    tensor([0])
    >>> head.predict(torch.tensor([[2.7, 3.3]])).tolist()
    ['b']
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, learner: Any) -> None:
        super().__init__()
        self.learner = learner
        # Not stored: their size changes with the classes, and they are computed from the learner.
        self.register_buffer("weight", torch.zeros(0, 0), persistent=False)
        self.register_buffer("bias", torch.zeros(0), persistent=False)
        self._is_stale = True

    def learn(self, features: Tensor, labels: ArrayLike | Tensor) -> Self:
        """Teach a batch of features and labels, new ones included; detached from gradients."""
        self.learner.partial_fit(features, labels)
        return self.refresh()

    def refresh(self) -> Self:
        """Invalidate W and b; they are read again by the next call."""
        self._is_stale = True
        return self

    def forward(self, features: Tensor) -> Tensor:
        """Logits, one column for each of ``classes_``."""
        if self._is_stale:
            self._read()
        return nn.functional.linear(
            features, self.weight.to(features.dtype), self.bias.to(features.dtype)
        )

    def predict(self, features: Tensor) -> NDArray[Any]:
        """The label of each row."""
        with torch.inference_mode():
            best = self(features).argmax(dim=1).cpu().numpy()
        answers: NDArray[Any] = self.classes_[best]
        return answers

    @property
    def classes_(self) -> NDArray[Any]:
        classes: NDArray[Any] = self.learner.classes_
        return classes

    def extra_repr(self) -> str:
        return repr(self.learner)

    def get_extra_state(self) -> Tensor:
        """The learner, as the bytes of its file."""
        return torch.frombuffer(bytearray(dumps(self.learner)), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the learner from :meth:`get_extra_state`."""
        self.learner = loads(np.asarray(state.cpu()).tobytes(), "the layer's state")
        self.refresh()

    def _read(self) -> None:
        weights, bias = self.learner.linear_head()
        temperature = self.learner.temperature_
        self.weight = torch.as_tensor(weights / temperature).to(self.weight)
        self.bias = torch.as_tensor(bias / temperature).to(self.bias)
        self._is_stale = False
