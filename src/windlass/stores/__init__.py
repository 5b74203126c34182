from windlass.stores.two_stacks import TwoStacks
