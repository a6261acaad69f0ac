"""Skočaj and Leonardis 2002: eigenspaces learned image by image, and robustly.

paper.py    the tables and figures
points.py   Fig. 1          coil.py   Fig. 2          scenes.py   Table 1 and Fig. 3
"""
