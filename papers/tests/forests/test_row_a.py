"""Shares of row (a) of Table 1, against the numbers worked out by hand."""

from everlearn_papers.forests.row_a import with_shares_of_row_a


def test_a_grown_forest_is_also_compared_with_the_forest_of_row_a():
    rows = [
        {"": "a", "data": "CIFAR-100", "method": "NCMF", "measured 100": "0.644"},
        {"": "a", "data": "CIFAR-100", "method": "MET+NCM", "measured 100": "0.647"},
        {"": "b", "data": "CIFAR-100", "method": "NCMF+RTST", "measured 100": "0.569 (91.8)"},
        {"": "b", "data": "CIFAR-100", "method": "MET_10+NCM", "measured 100": "0.453 (69.9)"},
        {"": "c", "data": "Omniglot", "method": "NCMF+RTST", "measured 100": "0.118 (96.9)"},
        {"": "b", "data": "CIFAR-100", "method": "NCMF+ULS", "published 100": "0.25 (58.1)"},
    ]
    done = with_shares_of_row_a(rows)
    assert [row.get("measured 100") for row in done] == [
        "0.644",
        "0.647",
        "0.569 (91.8; 88.4)",
        "0.453 (69.9; 70.0)",
        "0.118 (96.9)",  # there is no row (a) of that data
        None,
    ]
    assert done[-1]["published 100"] == "0.25 (58.1)"
