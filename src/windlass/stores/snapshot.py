def pack(s):
    raise NotImplementedError


def unpack(s, d):
    raise NotImplementedError
