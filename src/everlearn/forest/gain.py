"""Information gain of a split, and the best split among many.

    U(f) = H(S) − Σ_side |S_side|/|S| H(S_side),   H(S) = −Σ_κ P(κ|S) ln P(κ|S)              (Eq. 1)

With n the weights of the classes and f(v) = v ln v, |S| H(S) = f(Σ n) − Σ f(n), so that a candidate
needs only the class weights on its right side: O(cells · classes) per candidate.
"""

from typing import Any, NamedTuple

import numpy as np

from everlearn.compiled import inner
from everlearn.forest.buffers import Bytes, Floats64, Ints, flags, ints, zeros
from everlearn.forest.randomness import Generator, next_random
from everlearn.forest.settings import NONE, Side
from everlearn.forest.tree import TreeRows

SMALLEST_GAIN = 1e-9
# Gains that differ by less are considered equal; the lower code is used.
SAME_GAIN = 1e-12
# Beyond this many bits, candidates are drawn independently.
MOST_BITS = 60


class AtNode(NamedTuple):
    """The examples at a node and their classes.

    Attributes
    ----------
    rows : indices of the examples
    sides : the side of each example, filled by a splitting function
    slots, weights : the classes at the node, ascending, and the weight of each
    position : the index in ``slots`` of each class, or NONE
    """

    rows: Ints
    sides: Ints
    slots: Ints
    weights: Floats64
    position: Ints


@inner
def count_classes(rows: TreeRows, index: Ints, sides: Ints, n_slots: int) -> AtNode:
    """The classes among the examples ``index``, with their weights."""
    by_slot, weights = zeros(n_slots), zeros(n_slots)
    for i in range(index.shape[0]):
        by_slot[rows.slot[index[i]]] += rows.weight[index[i]]
    slots, position = ints(n_slots, NONE), ints(n_slots, NONE)
    count = 0
    for slot in range(n_slots):
        if by_slot[slot] > 0.0:
            slots[count], weights[count] = slot, by_slot[slot]
            position[slot] = count
            count += 1
    return AtNode(index, sides, slots[:count], weights[:count], position)


@inner
def total_of(values: Floats64) -> float:
    """Σ v"""
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return total


@inner
def entropy_term(v: float, entropies: Floats64) -> float:
    """f(v) = v ln v, from a table if v is a small integer."""
    whole = np.int64(v)
    if whole == v and 0 <= whole < entropies.shape[0]:
        return entropies[whole]
    return v * np.log(v) if v > 0.0 else 0.0


@inner
def class_entropy(weights: Floats64, entropies: Floats64) -> float:
    """|S| H(S) = f(Σ n) − Σ f(n)."""
    terms = 0.0
    for j in range(weights.shape[0]):
        terms += entropy_term(weights[j], entropies)
    return entropy_term(total_of(weights), entropies) - terms


@inner
def assignments(n_bits: int, n_wanted: int, skip_zero: bool, random: Generator) -> Bytes:
    """Distinct 0/1 rows of length ``n_bits``: all of them, or ``n_wanted`` at random.

    Random rows are consecutive numbers under a random bijection of the n-bit numbers (odd
    multiplications and shifted exclusive-ors), so none is repeated. Beyond 60 bits they are drawn
    independently; a repetition is then less likely than one in 10¹².
    """
    if n_bits > MOST_BITS:
        found = flags(n_wanted, n_bits)
        for c in range(n_wanted):
            for b in range(n_bits):
                found[c, b] = next_random(random) & 1
        return found
    first = 1 if skip_zero else 0
    every = (np.int64(1) << np.int64(n_bits)) - first
    count = int(min(every, np.int64(n_wanted)))
    found = flags(count, n_bits)
    mask = (np.int64(1) << np.int64(n_bits)) - 1
    shift = np.int64(n_bits // 2 + 1)
    odd_one = next_random(random) | 1
    odd_two = next_random(random) | 1
    counter = next_random(random) & mask
    c = 0
    while c < count:
        if count == every:
            code = np.int64(c + first)
        else:
            code = ((counter & mask) * (odd_one & mask)) & mask
            code ^= code >> shift
            code = (code * (odd_two & mask)) & mask
            code ^= code >> shift
            counter += 1
            if skip_zero and code == 0:
                continue
        for b in range(n_bits):
            found[c, b] = (code >> b) & 1
        c += 1
    return found


@inner
def best_assignment(
    sides: Bytes, histogram: Floats64, smallest: float, entropies: Floats64
) -> tuple[int, float]:
    """The row of ``sides`` (which cells go right) with the highest gain, and the gain.

    ``histogram`` holds the weight of each class (columns) in each cell (rows): sides @ histogram
    are the class weights on the right. Both sides must keep more than ``smallest``. (−1, 0) if no
    candidate does, or none gains.
    """
    k, n_classes = histogram.shape
    totals, right, cell_weight = zeros(n_classes), zeros(n_classes), zeros(k)
    for cell in range(k):
        for j in range(n_classes):
            totals[j] += histogram[cell, j]
            cell_weight[cell] += histogram[cell, j]
    total = total_of(totals)
    whole = class_entropy(totals, entropies)
    best, best_gain = -1, SMALLEST_GAIN
    for c in range(sides.shape[0]):
        weight = 0.0
        for cell in range(k):
            if sides[c, cell] == Side.RIGHT:
                weight += cell_weight[cell]
        if not (weight > smallest and total - weight > smallest):
            continue
        for j in range(n_classes):
            right[j] = 0.0
        for cell in range(k):
            if sides[c, cell] == Side.RIGHT:
                for j in range(n_classes):
                    right[j] += histogram[cell, j]
        terms = 0.0
        for j in range(n_classes):
            terms += entropy_term(right[j], entropies)
            terms += entropy_term(totals[j] - right[j], entropies)
        split = entropy_term(weight, entropies) + entropy_term(total - weight, entropies) - terms
        gain = (whole - split) / total
        if gain > best_gain:
            best, best_gain = c, gain
    return best, best_gain if best >= 0 else 0.0


@inner
def rarest_first(counts: Ints) -> Ints:
    """Indices in ascending order of their counts."""
    order = ints(counts.shape[0], 0)
    for i in range(counts.shape[0]):
        j = i
        while j > 0 and counts[order[j - 1]] > counts[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    return order


@inner
def best_partition(histogram: Floats64, smallest: float, entropies: Floats64) -> tuple[Any, float]:
    """The best partition of cells into left and right, and its gain; the last cell stays left.

    A partition is a code whose bit c says that cell c goes right; (0, 0) if none gains. The result
    is that of :func:`best_assignment` over all codes in ascending order, but codes are visited in
    the order of a Gray code: one cell changes sides at a time, and only the classes in that cell
    are counted again. Cells with few classes change most often.
    """
    k, n_classes = histogram.shape
    totals, cell_weight = zeros(n_classes), zeros(k)
    n_present, present = ints(k - 1, 0), ints(k * n_classes, NONE)
    for cell in range(k):
        for j in range(n_classes):
            totals[j] += histogram[cell, j]
            cell_weight[cell] += histogram[cell, j]
            if cell < k - 1 and histogram[cell, j] > 0.0:
                present[cell * n_classes + n_present[cell]] = j
                n_present[cell] += 1
    order = rarest_first(n_present)
    total = total_of(totals)
    whole = class_entropy(totals, entropies)
    right, term, terms = zeros(n_classes), zeros(n_classes), 0.0
    for j in range(n_classes):
        term[j] = entropy_term(totals[j], entropies)
        terms += term[j]
    weight, code = 0.0, np.int64(0)
    best, best_gain = np.int64(0), SMALLEST_GAIN
    for step in range(1, np.int64(1) << np.int64(k - 1)):
        bit = 0
        while not (step >> bit) & 1:
            bit += 1
        cell = order[bit]
        code ^= np.int64(1) << cell
        sign = 1.0 if (code >> cell) & 1 else -1.0
        weight += sign * cell_weight[cell]
        for i in range(n_present[cell]):
            j = present[cell * n_classes + i]
            right[j] += sign * histogram[cell, j]
            terms -= term[j]
            term[j] = entropy_term(right[j], entropies) + entropy_term(
                totals[j] - right[j], entropies
            )
            terms += term[j]
        if not (weight > smallest and total - weight > smallest):
            continue
        split = entropy_term(weight, entropies) + entropy_term(total - weight, entropies) - terms
        gain = (whole - split) / total
        difference = gain - best_gain
        if difference > SAME_GAIN or (difference > -SAME_GAIN and best and code < best):
            best, best_gain = code, gain
    return best, best_gain if best else 0.0
