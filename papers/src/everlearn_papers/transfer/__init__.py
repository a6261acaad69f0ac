"""Tommasi et al. 2012: transfer learning initialises online learning.

paper.py    the figures
tasks.py    a target, a background and priors: how a task is made, and who competes
"""
