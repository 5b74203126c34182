class Streaming:
    def __init__(self, store, size, length): pass
