"""Hayes and Kanan 2020: streaming linear discriminant analysis on deep features.

paper.py         the tables and figures
last_layer.py    the last layer of a network, what streaming learners are compared with
"""
