"""Camoriano et al. 2017: recursive least squares with class extension and recoding.

paper.py         the tables and figures
protocol.py      one trial: all classes but one, then the rare one; choice of λ and α
rows.py          rows of Table I, published and measured
categories.py    categories of the turntable's objects, one object of each held out
further.py       Fig. 2 and 3 on the turntable, and the time of an update
update_time.py   that time, measured
"""
