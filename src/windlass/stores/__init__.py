from windlass.stores.bint import BInt
from windlass.stores.daba import DABA
from windlass.stores.flatfat import FlatFAT
from windlass.stores.flatfit import FlatFIT
from windlass.stores.recompute import Recompute
from windlass.stores.slick_deque import SlickDeque, SlickDequeInv, SlickDequeNonInv
from windlass.stores.subtract_on_evict import SubtractOnEvict
from windlass.stores.two_stacks import TwoStacks
