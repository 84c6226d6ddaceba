"""Traces: functions over NumPy arrays, run once with arrays that only write down what is done.

``sizes`` has lengths as symbols, ``program`` the expressions and how they are printed, ``arrays``
the arrays that stand for arguments and what comes of them, ``ufuncs`` and ``functions`` what NumPy
does with them, ``indexing`` subscripts and assignments, ``modules`` the parts of NumPy that its
protocols leave out.
"""
