"""Hayes and Kanan 2020: streaming linear discriminant analysis on deep features.

paper.py         the tables and figures
experiments.py   the streams they are made of
learners.py      streaming LDA as printed
start.py         where its covariance comes from
last_layer.py    the last layer of a network, what streaming learners are compared with
"""
