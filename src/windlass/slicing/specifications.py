"""A window with fixed edges as kernels see it: a row of integers.

    windows w = 0, 1, …  begin at ORIGIN + w · PERIOD, and end one STEP later, or at each of ENDS steps

PERIOD 0: there is one window; ENDS 0: it ends again and again, for ever (a landmark).
"""

ORIGIN, PERIOD, STEP, ENDS, FINDING, MEASURE, EMIT_EMPTY = range(7)  # FINDING: which window of the plan
TIME, COUNT = 0, 1  # measures; 2 and above are columns
