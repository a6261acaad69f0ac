"""Camoriano et al. 2017: recursive least squares with class extension and recoding.

paper.py       the tables and figures
protocol.py    one trial: all classes but one, then the rare one; choice of λ and α
"""
