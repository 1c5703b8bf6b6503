"""Calls as a worker gets them over its socket: pickled, each behind its size."""

from __future__ import annotations

import pickle
import resource
import socket
import struct

SIZE = struct.Struct("<Q")
# Bytes of a worker's address space: far more than a kernel takes to compile.
MEMORY_LIMIT = 16 << 30


def answer_calls(parent: socket.socket) -> None:
    """Answers calls until the parent hangs up, with a limit of memory."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_LIMIT if most == resource.RLIM_INFINITY else min(MEMORY_LIMIT, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    requests = parent.makefile("rb")
    while True:
        header = requests.read(SIZE.size)
        if len(header) < SIZE.size:
            return
        function, args, kwargs = pickle.loads(requests.read(SIZE.unpack(header)[0]))
        reply: tuple[bool, object]
        try:
            reply = (True, function(*args, **kwargs))
            data = pickle.dumps(reply)
        except Exception as error:
            data = pickle.dumps((False, error))
        parent.sendall(SIZE.pack(len(data)) + data)
