"""Random forests that grow new classes (Ristin, Guillaumin, Gall, Van Gool; PAMI 2015).

split_ncm.py      nearest-class-mean nodes: train, route, extend      (Sec. 3.3, 3.4, 4.4.1)
split_svm.py      linear-SVM nodes: train, route, extend              (Sec. 3.1, 3.2, 4.4.2)
gain.py           the information gain that chooses among splits      (Eq. 1)
tree.py           a tree as flat arrays                               tree_state.py   and in a file
route.py          which way examples go
grow.py           growing leaves into subtrees                        (Sec. 3)
answer.py         the class distributions at the leaves               (Eq. 2)
update/           uls.py  igt.py  rtst.py  rust.py  auto.py, and node_sampling.py      (Sec. 4)
settings.py       the record of all parameters, and the enumerations
examples.py       the stored examples that leaves refer to, within a budget
grove.py          trees over the same examples: teach, forget, ask
classifier.py     base class of the forests
ncm_forest.py     NCMForest        svm_forest.py    SVMForest
inside.py         the path of an example through a tree               (Fig. 15)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
