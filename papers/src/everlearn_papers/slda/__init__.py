"""Hayes and Kanan 2020: streaming linear discriminant analysis on deep features.

paper.py         the tables and figures
experiments.py   the experiments behind them
learners.py      streaming LDA as printed
start.py         choices of its initial covariance
last_layer.py    gradient-trained last layers, the baselines of the streaming learners
"""
