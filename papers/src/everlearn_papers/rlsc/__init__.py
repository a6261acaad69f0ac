"""Camoriano et al. 2017: recursive least squares with class extension and recoding.

paper.py       the tables and figures
protocol.py    one trial: all classes but one, then that one; and how λ and α are chosen
"""
