"""Power normalisation: a signed power of each feature, then length one.

    z = sign(x) |x|^p,    z / ‖z‖

A network's last features are like counts: a few are large, most are small, and the large ones vary
most. The power (½ is the Hellinger map of a histogram) equalises the variances; normalising the
length removes the overall activation. Both are functions of one example, so nothing is learned and
the learner behind it keeps all its promises.

Cost: O(d) per example.
"""

from typing import Any

from sklearn.base import OneToOneFeatureMixin

from everlearn.arrays import Array, signed_power, unit_rows
from everlearn.device.device import Device, unit_rows_at
from everlearn.preprocessing.fixed_map import FixedMap, signed_power_at
from everlearn.validation import require_flag, require_number


class PowerNormalizer(OneToOneFeatureMixin, FixedMap):
    """Raise features to a power, keeping their signs, and normalise each example to length one.

    Parameters
    ----------
    power : float in (0, 1], default=0.5
        p; 1 leaves the features unchanged.
    unit_length : bool, default=True
        Normalise every example to length one afterwards. A zero example stays zero.

    Attributes
    ----------
    n_features_in_ : int

    See Also
    --------
    InitialWhitening : Mean zero and deviation one, by the first batch.
    RandomFeatures : Random features of the result.

    Notes
    -----
    *Cost*: O(d) per row.

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
