"""One-byte codes of rows, and bounds on products with them."""

import numpy as np

from everlearn.arrays import AnyArray, Array
from everlearn.compiled import compiled

# The largest code of a row.
LARGEST_CODE = 127


@compiled
def encode_rows(
    rows: Array,
    first: int,
    centre: Array,
    codes: AnyArray,
    steps: Array,
    gaps: Array,
    lengths: Array,
    squares: Array,
    fine_codes: AnyArray,
    finer: float,
    fine_gaps: Array,
) -> None:
    """Encode rows beginning at ``first``:  row − centre ≈ step · code.

    ``gaps`` gets ‖row − centre − step · code‖, ``lengths`` ‖step · code‖ and ``squares``
    ‖row − centre‖². If there are any ``fine_codes``, row − centre ≈ step · (code + fine / finer),
    up to a vector whose length ``fine_gaps`` gets.
    """
    has_fine = fine_codes.shape[0] > 0
    for i in range(rows.shape[0]):
        row = rows[i]
        code = codes[first + i]
        largest = 0.0
        for j in range(row.shape[0]):
            largest = max(largest, abs(row[j] - centre[j]))
        step = largest / LARGEST_CODE
        usable = step > 1e-300 and step < 1e300
        inverse = 1.0 / step if usable else 0.0
        steps[first + i] = step if usable else 0.0
        gap = 0.0
        length = 0.0
        square = 0.0
        fine_gap = 0.0
        for j in range(row.shape[0]):
            apart = row[j] - centre[j]
            value = np.rint(apart * inverse)
            code[j] = np.int8(value)
            left = apart - step * value if usable else apart
            gap += left * left
            length += value * value
            square += apart * apart
            if has_fine:
                fine = min(max(np.rint(left * inverse * finer), -LARGEST_CODE), LARGEST_CODE)
                fine_codes[first + i, j] = np.int8(fine)
                left = left - step / finer * fine if usable else left
                fine_gap += left * left
        gaps[first + i] = np.sqrt(gap)
        lengths[first + i] = steps[first + i] * np.sqrt(length)
        squares[first + i] = square
        if has_fine:
            fine_gaps[first + i] = np.sqrt(fine_gap)


@compiled
def code_products(codes: AnyArray, query: AnyArray, sums: AnyArray) -> None:
    """Products of every row of codes with the query; each fits 32 bits."""
    for k in range(codes.shape[0]):
        code = codes[k]
        total = np.int32(0)
        for j in range(query.shape[0]):
            total += np.int32(code[j]) * np.int32(query[j])
        sums[k] = total


@compiled
def bound_scores(
    sums: AnyArray,
    steps: Array,
    gaps: Array,
    lengths: Array,
    counts: Array,
    query_step: float,
    query_length: float,
    query_gap: float,
    scale: Array,
    offset: float,
    bias: Array,
    rounding: float,
    slack: float,
    lowest: Array,
    upper: Array,
) -> None:
    """An upper bound on every score, and the largest lower bounds in ``lowest``, best first.

    score = scale (row·z + offset) + bias. With row = step · code + e, z = query_step · query + f,

        |row·z − step · query_step · (code·query)| ≤ ‖e‖ ‖z‖ + ‖step · code‖ ‖f‖

    and rounding adds a share of the size of all terms. Empty ``scale`` and ``bias`` mean one
    and zero. A row without a count gets −∞.
    """
    n = lowest.shape[0]
    for k in range(n):
        lowest[k] = -np.inf
    for k in range(sums.shape[0]):
        if not counts[k] > 0.0:
            upper[k] = -np.inf
            continue
        factor = scale[k] if scale.shape[0] else 1.0
        added = bias[k] if bias.shape[0] else 0.0
        near = factor * (steps[k] * query_step * sums[k] + offset) + added
        within = gaps[k] * query_length + lengths[k] * query_gap
        size = (lengths[k] + gaps[k]) * query_length + abs(offset) + slack
        bound = factor * (within + rounding * size) + rounding * abs(added) + 1e-290
        upper[k] = near + bound
        low = near - bound
        if low > lowest[n - 1]:
            place = n - 1
            while place > 0 and low > lowest[place - 1]:
                lowest[place] = lowest[place - 1]
                place -= 1
            lowest[place] = low
