from windlass.stores.fiba.store import ClassicBTree, FiBA

__all__ = ["ClassicBTree", "FiBA"]
