"""Ristin et al. 2015: random forests that grow new classes.

paper.py         the tables and figures
protocol.py      classes in a random order, a few at a time; what is measured
experiments.py   forests trained and updated, for one order of the classes
rivals.py        the baselines they are compared with
mondrian.py      one of the baselines, a Mondrian forest
runs.py          the runs that several figures share, and drawing functions
parameters.py    Sec. 5.1: Fig. 4-10
large.py         Sec. 5.2-5.3: Fig. 11-14, Table 1, Table 2
inside.py        Fig. 15: paths through a tree
"""
