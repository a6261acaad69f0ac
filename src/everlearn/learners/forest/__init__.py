"""Random forests that grow new classes.

examples.py       the examples that leaves refer to, within a budget
tree_state.py     a tree as plain arrays, and back
grove.py          trees over the same examples: teach, forget, ask
classifier.py     what all forests share as learners
ncm_forest.py     NCMForest        svm_forest.py    SVMForest
conventional.py   ConventionalForest, the baseline
inside.py         the path of an example through a tree
"""
