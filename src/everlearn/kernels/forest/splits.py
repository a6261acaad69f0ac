"""Finding a splitting function for the examples of one node.

U = H(S) − Σ_side |S_side|/|S| H(S_side),   H(S) = −Σ_κ P(κ|S) ln P(κ|S)                     (Eq. 1)

With n the weights of the classes and f(v) = v ln v, |S| H(S) = f(Σ n) − Σ f(n), so that a candidate
needs only the class weights on its left side.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.kernels.compile import compiled
from everlearn.kernels.forest.route import inner, nearest_cells
from everlearn.kernels.forest.tree import (
    AXIS,
    LEFT,
    NCM,
    NONE,
    RIGHT,
    SVM,
    Bytes,
    Floats32,
    Floats64,
    Ints,
    Rows,
    Settings,
    next_random,
    random_below,
    random_unit,
)

SMALLEST_GAIN = 1e-9
# Gains that differ by less are the same: of two such ways the first counts.
SAME_GAIN = 1e-12
# Steps of stochastic gradient for one node: at least, so that small nodes converge, and at most.
FEWEST_STEPS = 200
MOST_STEPS = 20_000


class Census(NamedTuple):
    """The classes at a node: their slots (ascending), their weights, and where each slot stands."""

    slots: Ints
    weights: Floats64
    position: Ints


class Split(NamedTuple):
    """A splitting function, ready to be written into a tree."""

    gain: float
    member_slot: Ints
    member_side: Bytes
    vectors: Floats32
    half_square: Floats32
    feature: int
    threshold: Any


@compiled
def no_split() -> Split:
    return Split(
        0.0,
        np.empty(0, np.int32),
        np.empty(0, np.uint8),
        np.empty((0, 0), np.float32),
        np.empty(0, np.float32),
        NONE,
        np.float32(0.0),
    )


@compiled
def census(rows: Rows, index: Ints, n_slots: int) -> Census:
    """Count the classes among some examples."""
    by_slot = np.zeros(n_slots)
    for row in index:
        by_slot[rows.slot[row]] += rows.weight[row]
    slots = np.empty(n_slots, np.int32)
    position = np.full(n_slots, NONE, np.int32)
    count = 0
    for slot in range(n_slots):
        if by_slot[slot] > 0.0:
            slots[count] = slot
            position[slot] = count
            count += 1
    slots = slots[:count]
    return Census(slots, by_slot[slots], position)


@compiled
def entropy_term(v: float, entropies: Floats64) -> float:
    """f(v) = v ln v, looked up where v is a small whole number."""
    whole = np.int64(v)
    if whole == v and whole < entropies.shape[0]:
        return entropies[whole]
    return v * np.log(v) if v > 0.0 else 0.0


@compiled
def class_entropy(weights: Floats64, entropies: Floats64) -> float:
    """|S| H(S) = f(Σ n) − Σ f(n)."""
    total, terms = 0.0, 0.0
    for weight in weights:
        total += weight
        terms += entropy_term(weight, entropies)
    return entropy_term(total, entropies) - terms


@compiled
def assignments(n_bits: int, n_wanted: int, skip_zero: bool, random: NDArray[np.uint64]) -> Bytes:
    """Different 0/1 rows of length ``n_bits``: all there are, or ``n_wanted`` at random.

    Random rows are consecutive numbers under a random bijection of the n-bit numbers (odd
    multiplications and shifted exclusive-ors), so none comes twice. Beyond 60 bits they are drawn
    independently; a repetition is then less likely than one in 10¹².
    """
    if n_bits > 60:
        found = np.empty((n_wanted, n_bits), np.uint8)
        for c in range(n_wanted):
            for b in range(n_bits):
                found[c, b] = next_random(random) & 1
        return found
    first = 1 if skip_zero else 0
    every = (np.int64(1) << np.int64(n_bits)) - first
    count = min(every, np.int64(n_wanted))
    found = np.empty((count, n_bits), np.uint8)
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


@compiled
def best_assignment(
    sides: Bytes, histogram: Floats64, smallest: float, entropies: Floats64
) -> tuple[int, float]:
    """The row of ``sides`` (which cells go right) with the highest gain, and the gain.

    ``histogram`` holds the weight of each class (columns) in each cell (rows): sides @ histogram
    are the class weights on the right. Both sides must keep more than ``smallest``. (−1, 0) if no
    candidate does, or none gains.
    """
    k, n_classes = histogram.shape
    totals = np.zeros(n_classes)
    for cell in range(k):
        totals += histogram[cell]
    total = totals.sum()
    whole = class_entropy(totals, entropies)
    right = np.empty(n_classes)
    cell_weight = np.empty(k)
    for cell in range(k):
        cell_weight[cell] = histogram[cell].sum()
    best, best_gain = -1, SMALLEST_GAIN
    for c in range(sides.shape[0]):
        weight = 0.0
        for cell in range(k):
            if sides[c, cell] == RIGHT:
                weight += cell_weight[cell]
        if not (weight > smallest and total - weight > smallest):
            continue
        right[:] = 0.0
        for cell in range(k):
            if sides[c, cell] == RIGHT:
                counts = histogram[cell]
                for j in range(n_classes):
                    right[j] += counts[j]
        terms = 0.0
        for j in range(n_classes):
            terms += entropy_term(right[j], entropies)
            terms += entropy_term(totals[j] - right[j], entropies)
        split = entropy_term(weight, entropies) + entropy_term(total - weight, entropies) - terms
        gain = (whole - split) / total
        if gain > best_gain:
            best, best_gain = c, gain
    return best, best_gain if best >= 0 else 0.0


@compiled
def best_partition(histogram: Floats64, smallest: float, entropies: Floats64) -> tuple[Any, float]:
    """The best of all ways to send cells left and right, and its gain; the last cell stays left.

    As :func:`best_assignment` over all codes in ascending order, where bit c of a code says that
    cell c goes right; (0, 0) if there is none. The ways come in the order of a Gray code, so that
    one cell changes sides at a time, and only the classes in that cell are counted again. Cells
    with few classes change most often.
    """
    k, n_classes = histogram.shape
    totals, cell_weight = np.zeros(n_classes), np.zeros(k)
    n_present = np.zeros(k - 1, np.int64)
    for cell in range(k):
        for j in range(n_classes):
            totals[j] += histogram[cell, j]
            cell_weight[cell] += histogram[cell, j]
            if cell < k - 1 and histogram[cell, j] > 0.0:
                n_present[cell] += 1
    order = np.argsort(n_present)
    present = np.empty((k - 1, n_classes), np.int64)
    for cell in range(k - 1):
        count = 0
        for j in range(n_classes):
            if histogram[cell, j] > 0.0:
                present[cell, count] = j
                count += 1
    total = totals.sum()
    whole = class_entropy(totals, entropies)
    right, term, terms = np.zeros(n_classes), np.zeros(n_classes), 0.0
    for j in range(n_classes):
        term[j] = entropy_term(totals[j], entropies)
        terms += term[j]
    weight, code = 0.0, np.int64(0)
    best, best_gain = np.int64(0), SMALLEST_GAIN
    for step in range(1, np.int64(1) << np.int64(k - 1)):
        place = 0
        while not (step >> place) & 1:
            place += 1
        cell = order[place]
        code ^= np.int64(1) << cell
        sign = 1.0 if (code >> cell) & 1 else -1.0
        weight += sign * cell_weight[cell]
        for i in range(n_present[cell]):
            j = present[cell, i]
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
        ahead = gain - best_gain
        if ahead > SAME_GAIN or (ahead > -SAME_GAIN and best and code < best):
            best, best_gain = code, gain
    return best, best_gain if best else 0.0


@compiled
def class_means(rows: Rows, index: Ints, member_of: Ints, k: int) -> tuple[Floats32, Floats32]:
    """c_κ = mean of the examples of class κ (Eq. 7), and ½‖c_κ‖²; member_of[slot] is its place.

    One class after another, so that the sum being formed stays in the processor's nearest cache.
    """
    d = rows.X.shape[1]
    begin = np.zeros(k + 2, np.int64)
    for row in index:
        begin[member_of[rows.slot[row]] + 2] += 1
    begin[1] = 0  # those of no member
    for member in range(k):
        begin[member + 2] += begin[member + 1]
    own = np.empty(begin[k + 1], np.int32)
    for row in index:
        member = member_of[rows.slot[row]]
        if member != NONE:
            own[begin[member + 1]] = row
            begin[member + 1] += 1
    # Now begin[m] and begin[m + 1] are where the examples of member m begin and end.
    total = np.empty(d)
    means = np.empty((k, d), np.float32)
    half_square = np.empty(k, np.float32)
    for member in range(k):
        total[:] = 0.0
        weights = 0.0
        for row in own[begin[member] : begin[member + 1]]:
            weight, x = rows.weight[row], rows.X[row]
            weights += weight
            if weight == 1.0:
                for j in range(d):
                    total[j] += x[j]
            else:
                for j in range(d):
                    total[j] += weight * x[j]
        mean, scale, square = means[member], 1.0 / weights, 0.0
        for j in range(d):
            mean[j] = total[j] * scale
            square += np.float64(mean[j]) * np.float64(mean[j])
        half_square[member] = 0.5 * square
    return means, half_square


@compiled
def cell_histogram(rows: Rows, index: Ints, cells: Ints, k: int, here: Census) -> Floats64:
    """The weight of each class in each cell."""
    histogram = np.zeros((k, here.slots.shape[0]))
    for i in range(index.shape[0]):
        row = index[i]
        histogram[cells[i], here.position[rows.slot[row]]] += rows.weight[row]
    return histogram


@compiled
def random_subset(n: int, k: int, random: NDArray[np.uint64]) -> Ints:
    """K of the numbers below n, ascending."""
    numbers = np.arange(n).astype(np.int32)
    for i in range(k):
        j = i + random_below(random, n - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return np.sort(numbers[:k])


@compiled
def ncm_split(
    rows: Rows,
    index: Ints,
    here: Census,
    settings: Settings,
    random: NDArray[np.uint64],
    sides: Ints,
) -> Split:
    """Class means of a random subset of the classes, the best way to send them left and right."""
    k = min(settings.subset, here.slots.shape[0])
    chosen = here.slots[random_subset(here.slots.shape[0], k, random)]
    member_of = np.full(settings.n_slots, NONE, np.int32)
    for member in range(k):
        member_of[chosen[member]] = member
    means, half_square = class_means(rows, index, member_of, k)
    nearest_cells(rows.X, index, means, half_square, sides)
    histogram = cell_histogram(rows, index, sides, k, here)
    # The last centroid stays left: a partition and its mirror image are the same.
    member_side = np.zeros(k, np.uint8)
    if k - 1 < 40 and (np.int64(1) << np.int64(k - 1)) - 1 <= settings.n_candidates:
        code, gain = best_partition(histogram, settings.smallest, settings.entropies)
        for member in range(k - 1):
            member_side[member] = (code >> member) & 1
    else:
        candidates = np.zeros((settings.n_candidates, k), np.uint8)
        candidates[:, : k - 1] = assignments(k - 1, settings.n_candidates, True, random)
        best, gain = best_assignment(candidates, histogram, settings.smallest, settings.entropies)
        member_side[:] = candidates[best]
    if gain <= 0.0:
        return no_split()
    for i in range(index.shape[0]):
        sides[i] = member_side[sides[i]]
    return Split(gain, chosen, member_side, means, half_square, NONE, np.float32(0.0))


@compiled
def drawn(cumulative: Floats64, random: NDArray[np.uint64]) -> Any:
    """A random place, each with a probability proportional to its weight."""
    u = random_unit(random) * cumulative[-1]
    return min(np.searchsorted(cumulative, u, "right"), cumulative.shape[0] - 1)


@compiled
def trained_svms(
    rows: Rows,
    index: Ints,
    here: Census,
    labels: Bytes,
    start: Floats32,
    start_threshold: float,
    settings: Settings,
    random: NDArray[np.uint64],
) -> tuple[Floats32, Floats32]:
    """One hyperplane per row of meta-labels, by stochastic gradient on the hinge loss (Eq. 4).

    Pegasos keeps w_t = z_t / (λ t) with z_{t+1} = z_t + [y w·x < 1] y x. All hyperplanes see the
    same examples, each drawn with probability proportional to its weight. t starts where the
    step 1/(λ t) is 1/E‖x‖², so that no step overshoots. ``start`` is one vector, or none. The
    intercept is the weight of one more feature that is always 1; a threshold is its negative.
    """
    n, d = index.shape[0], rows.X.shape[1]
    count = labels.shape[0]
    cumulative = np.cumsum(rows.weight[index])
    weight, square = cumulative[-1], 0.0
    for i in range(n):
        x = rows.X[index[i]]
        square += rows.weight[index[i]] * (1.0 + inner(x, x))
    t_start = max(1.0, square / (weight * settings.regularisation))
    z, z_one = np.zeros((count, d), np.float32), np.zeros(count, np.float32)
    if start.shape[0]:
        scale = np.float32(settings.regularisation * t_start)
        for c in range(count):
            z[c] = scale * start[0]
            z_one[c] = -scale * start_threshold
    steps = min(max(int(settings.epochs * weight), FEWEST_STEPS), MOST_STEPS)
    for t in range(steps):
        row = index[drawn(cumulative, random)]
        x = rows.X[row]
        position = here.position[rows.slot[row]]
        shrink = np.float32(settings.regularisation * (t_start + t))
        for c in range(count):
            w = z[c]
            y = np.float32(1.0) if labels[c, position] == RIGHT else np.float32(-1.0)
            if y * (inner(x, w) + z_one[c]) < shrink:
                z_one[c] += y
                for j in range(d):
                    w[j] += y * x[j]
    final = np.float32(1.0 / (settings.regularisation * (t_start + steps)))
    for c in range(count):
        w = z[c]
        for j in range(d):
            w[j] *= final
        z_one[c] *= -final
    return z, z_one


@compiled
def best_hyperplane(
    rows: Rows,
    index: Ints,
    here: Census,
    W: Floats32,
    thresholds: Floats32,
    settings: Settings,
    sides: Ints,
) -> tuple[int, float]:
    """The hyperplane with the highest gain; ``sides`` is what it says of each example."""
    right = np.zeros((W.shape[0], here.slots.shape[0]))
    for row in index:
        position = here.position[rows.slot[row]]
        x = rows.X[row]
        for c in range(W.shape[0]):
            if inner(x, W[c]) > thresholds[c]:
                right[c, position] += rows.weight[row]
    ways = np.array([[RIGHT, LEFT]], np.uint8)
    histogram = np.empty((2, here.slots.shape[0]))
    best, best_gain = -1, 0.0
    for c in range(W.shape[0]):
        histogram[0] = right[c]
        histogram[1] = here.weights - right[c]
        found, gain = best_assignment(ways, histogram, settings.smallest, settings.entropies)
        if found >= 0 and gain > best_gain:
            best, best_gain = c, gain
    if best >= 0:
        for i in range(index.shape[0]):
            x = rows.X[index[i]]
            sides[i] = RIGHT if inner(x, W[best]) > thresholds[best] else LEFT
    return best, best_gain


@compiled
def svm_split(
    rows: Rows,
    index: Ints,
    here: Census,
    settings: Settings,
    random: NDArray[np.uint64],
    sides: Ints,
) -> Split:
    """Random meta-labels for the classes, a linear SVM for each way, the best of them."""
    k = here.slots.shape[0]
    free = assignments(k - 1, settings.n_candidates, True, random)
    labels = np.zeros((free.shape[0], k), np.uint8)
    labels[:, : k - 1] = free
    start = np.empty((0, 0), np.float32)
    W, thresholds = trained_svms(rows, index, here, labels, start, 0.0, settings, random)
    best, gain = best_hyperplane(rows, index, here, W, thresholds, settings, sides)
    if best < 0:
        return no_split()
    half_square = np.zeros(1, np.float32)
    return Split(
        gain,
        here.slots,
        labels[best].copy(),
        W[best : best + 1].copy(),
        half_square,
        NONE,
        thresholds[best],
    )


@compiled
def linear_split(
    rows: Rows,
    index: Ints,
    here: Census,
    settings: Settings,
    random: NDArray[np.uint64],
    sides: Ints,
) -> Split:
    """Random directions, each with a threshold halfway between two random examples."""
    d = rows.X.shape[1]
    cumulative = np.cumsum(rows.weight[index])
    W = np.empty((settings.n_candidates, d), np.float32)
    thresholds = np.empty(settings.n_candidates, np.float32)
    for c in range(settings.n_candidates):
        w = W[c]
        for j in range(d):
            radius = np.sqrt(-2.0 * np.log(random_unit(random)))
            w[j] = radius * np.cos(2.0 * np.pi * random_unit(random))
        low = inner(rows.X[index[drawn(cumulative, random)]], w)
        high = inner(rows.X[index[drawn(cumulative, random)]], w)
        thresholds[c] = np.float32(0.5) * (low + high) if low != high else np.float32(np.inf)
    best, gain = best_hyperplane(rows, index, here, W, thresholds, settings, sides)
    if best < 0:
        return no_split()
    return Split(
        gain,
        np.empty(0, np.int32),
        np.empty(0, np.uint8),
        W[best : best + 1].copy(),
        np.zeros(1, np.float32),
        NONE,
        thresholds[best],
    )


@compiled
def axis_split(
    rows: Rows,
    index: Ints,
    here: Census,
    settings: Settings,
    random: NDArray[np.uint64],
    sides: Ints,
) -> Split:
    """Random features, each with a threshold halfway between two random examples."""
    n, d = index.shape[0], rows.X.shape[1]
    cumulative = np.cumsum(rows.weight[index])
    ways = np.array([[RIGHT, LEFT]], np.uint8)
    histogram = np.empty((2, here.slots.shape[0]))
    best_gain, best_feature, best_threshold = 0.0, NONE, np.float32(0.0)
    for _ in range(settings.n_candidates):
        feature = random_below(random, d)
        low = rows.X[index[drawn(cumulative, random)], feature]
        high = rows.X[index[drawn(cumulative, random)], feature]
        if low == high:
            continue
        threshold = np.float32(0.5) * (low + high)
        histogram[0] = 0.0
        for row in index:
            if rows.X[row, feature] > threshold:
                histogram[0, here.position[rows.slot[row]]] += rows.weight[row]
        histogram[1] = here.weights - histogram[0]
        found, gain = best_assignment(ways, histogram, settings.smallest, settings.entropies)
        if found >= 0 and gain > best_gain:
            best_gain, best_feature, best_threshold = gain, feature, threshold
    if best_feature == NONE:
        return no_split()
    for i in range(n):
        sides[i] = RIGHT if rows.X[index[i], best_feature] > best_threshold else LEFT
    return Split(
        best_gain,
        np.empty(0, np.int32),
        np.empty(0, np.uint8),
        np.empty((0, 0), np.float32),
        np.empty(0, np.float32),
        best_feature,
        best_threshold,
    )


@compiled
def best_split(
    rows: Rows, index: Ints, settings: Settings, random: NDArray[np.uint64], sides: Ints
) -> Split:
    """The splitting function for a node, and the side of each example; no gain if there is none."""
    here = census(rows, index, settings.n_slots)
    if here.slots.shape[0] < 2 or not here.weights.sum() > 2.0 * settings.smallest:
        return no_split()
    if settings.kind == NCM:
        return ncm_split(rows, index, here, settings, random, sides)
    if settings.kind == SVM:
        return svm_split(rows, index, here, settings, random, sides)
    if settings.kind == AXIS:
        return axis_split(rows, index, here, settings, random, sides)
    return linear_split(rows, index, here, settings, random, sides)
