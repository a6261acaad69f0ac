"""All compiled functions: pure, arrays in, arrays out, a formula in each docstring.

Importing a module of this room imports numba, so other rooms import it inside the functions that
need it. Arrays are C-contiguous. Inner loops run over slices that share no memory, which is what
lets the compiler use vector instructions.
"""
