"""Tommasi et al. 2012: transfer learning initialises online learning.

paper.py    the figures
tasks.py    construction of a task (target, background, priors), and the compared methods
"""
