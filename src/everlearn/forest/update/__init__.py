"""Updates of an existing tree (Sec. 4), one file each, from cheap to accurate.

uls.py    update leaf statistics            igt.py    also grow leaves
rust.py   also reuse subtrees               rtst.py   also retrain subtrees
auto.py   regrow outgrown nodes             node_sampling.py   which nodes RTST and RUST take

Each has one function, ``taught(tree, batch, settings)``, which may change ``tree`` and returns the
updated tree.
"""
