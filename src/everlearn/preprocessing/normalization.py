"""Features after a signed power, at length one.

    z = sign(x) |x|^p,    z / ‖z‖

A network's last features are counts of how often something was seen: a few are large, most are
small, and the large ones vary most. The power (½ is the Hellinger map of a histogram) evens the
variances out, the length takes away how strongly the whole picture excites the network. Both are
functions of one example, so nothing is learned and every promise of the learner behind it holds.

Cost: O(d) per example.
"""

from typing import Any

from sklearn.base import OneToOneFeatureMixin

from everlearn.arrays import Array, signed_power, unit_rows
from everlearn.device.device import Device, unit_rows_at
from everlearn.preprocessing.fixed_map import FixedMap, signed_power_at
from everlearn.validation import require_flag, require_number


class PowerNormalizer(OneToOneFeatureMixin, FixedMap):
    """Raise features to a power, keeping their signs, and bring each example to length one.

    Parameters
    ----------
    power : float in (0, 1], default=0.5
        p; 1 leaves the features as they are.
    unit_length : bool, default=True
        Bring every example to length one afterwards. An example of zeros stays zero.

    Attributes
    ----------
    n_features_in_ : int

    See Also
    --------
    InitialWhitening : Mean zero and deviation one, as the first batch had them.
    RandomFeatures : Wide random features of what comes out of this.

    Notes
    -----
    *Cost*: O(d) a row.

    *Promises*: all of them: nothing is learned, so a learner behind it keeps its own.

    References
    ----------
    Perronnin, Sánchez, Mensink. Improving the Fisher Kernel for Large-Scale Image Classification.
    ECCV 2010.

    Examples
    --------
    >>> from everlearn import PowerNormalizer
    >>> PowerNormalizer().fit_transform([[9.0, -16.0]]).tolist()
    [[0.6, -0.8]]
    """

    row_by_row = True

    def __init__(self, *, power: float = 0.5, unit_length: bool = True) -> None:
        self.power = power
        self.unit_length = unit_length

    def _check_parameters(self) -> None:
        require_number("power", self.power, above=0.0, most=1.0)
        require_flag("unit_length", self.unit_length)

    def _map(self, rows: Array) -> Array:
        raised = signed_power(rows, float(self.power))
        return unit_rows(raised) if self.unit_length else raised

    def _map_at(self, device: Device, rows: Any) -> Any:
        raised = signed_power_at(device, rows, float(self.power))
        return unit_rows_at(device, raised) if self.unit_length else raised
