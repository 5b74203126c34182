"""The instructions of a slice program: what each word of a row means is in `program`."""

FOLD, MERGE, REPAIR, ANSWER, ABSORB, COMBINE = range(6)
WIDTH = 7  # words an instruction
