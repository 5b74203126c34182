"""The instructions of a slice program: what each word of a row means is in `program`."""

FOLD, MERGE, REPAIR, ANSWER, ABSORB, COMBINE, FOLDS, ANSWERS = range(8)
WIDTH = 7  # words an instruction
