"""FiBA: the finger B-tree aggregator (Tangwongsan, Hirzel, Schneider, PVLDB 2019; bulk operations in the spirit of
2023).

Idea. Events by time in a B-tree whose nodes keep partial aggregates, with fingers to its two ends. Each node keeps the
kind of aggregate that its place asks for, so that a change is repaired on the way to the nearer finger and no further.

State, min_arity 2, a letter for the partial at its time (aggregates in capitals, kinds of `repair`):

                       7:g 15:o   GHIJKLMNO (inner)
              ╱             │              ╲
     3:c 5:e  CDEF      10:j 12:l      20:t  QST
      (left)            HIJKLMN (up)     (right)
     ╱  │  ╲             ╱  │  ╲          ╱     ╲
  1:a 2:b  4:d  6:f    8,9  11  13,14  17:q 19:s  21:u
  ABCDEF   D    F       …    …    …       QS      QSTU      query: ABCDEF ⊕ GHIJKLMNO ⊕ QSTU
  left finger                                     right finger

Invariants
1. Sizes: a node has min_arity to 2·min_arity children (the root 2 or more) and one entry fewer; all leaves are at one
depth. 2. Order: times ascend, within nodes and across them.
3. Aggregates: every node off the spines keeps its up-aggregate, the root its inner, the spines their left and right
ones. 4. Fingers and spines: the head knows the outermost nodes of every level.
5. Parents: a child's parent is the node it is a child of.
6. Memory: every row and slot is used once, or free once.
7. Nothing is marked when the tree is asked: changes were settled before they returned, evictions before that.

Costs in ⊕, constants in μ = min_arity: insert and evict O(log d) at distance d from the nearer end, O(1) in order;
query 2; a range O(log d_from + log d_to + log n_sub); a batch repairs each node once. Lemma 9: splits, merges and moves
are O(1) an operation, amortised. A stream answers in O(log k) ⊕ an event, where k ≤ 2 · 1024 is how often its chunk
jumps back and forth in time: O(1) in order, or at any constant distance.

Departures. Entries hold a slot instead of a value, so that all rearranging is compiled once for all aggregates. Inserts
are batches, and a node that overflows is cut evenly into as many as it needs. Repair is found from marks instead of the
paper's (top, hit_left, hit_right). The head keeps the whole spines, not only the fingers, which makes "is it on a
spine" one comparison. Ranges are half-open. The classic B-tree is the same tree without fingers, up-aggregates
throughout.

| files, in reading order | |
|---|---|
| `nodes.py`, `search.py` | rows of integers; finger search |
| `insertion.py`, `eviction.py` | rearranging: batches in, times and prefixes out |
| `repair.py`, `ranges.py` | the four kinds of aggregates; pieces of a range |
| `changing.py`, `memory.py`, `store.py` | the steps as kernels; arrays, and snapshots of them; the stores |
| `times.py`, `invariants.py` | event times; what must hold |
| `survey.py`, `deep.py` | a chunk of a stream, planned |
| `staging.py`, `answering.py`, `streaming.py` | lifted, answered, put into the tree |
"""

from windlass.stores.fiba.store import ClassicBTree, FiBA

__all__ = ["ClassicBTree", "FiBA"]
