"""The one connection of a client: made at its first use, and again after it was lost."""

from __future__ import annotations

import atexit
import os
import threading
import weakref

from ._connection import Connection, Launch


class Hub:
    """Has a connection for whoever asks, in any thread."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        _hubs.add(self)

    @property
    def current(self) -> Connection | None:
        """The connection, if there is one that works."""
        connection = self._connection
        return connection if connection is not None and connection.is_alive else None

    def connection(self) -> Connection:
        """Returns the connection, made now if there is none that works."""
        with self._lock:
            if self.current is None:
                lost, self._connection = self._connection, None
                if lost is not None:
                    lost.close()
                self._connection = Connection(self.launch)
            assert self._connection is not None
            return self._connection

    def close(self) -> None:
        """Ends the connection; the next request makes another one."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.end()

    def after_fork(self) -> None:
        """Forgets the connection of the process that this one was forked of."""
        self._lock = threading.Lock()
        self._connection = None


_hubs: weakref.WeakSet[Hub] = weakref.WeakSet()
_shared: dict[Launch, Hub] = {}
_shared_lock = threading.Lock()


def shared(launch: Launch) -> Hub:
    """Returns the hub that everybody in this process shares who asks for the same."""
    with _shared_lock:
        if launch not in _shared:
            _shared[launch] = Hub(launch)
        return _shared[launch]


@atexit.register
def _close_all() -> None:
    for hub in list(_hubs):
        hub.close()


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for hub in list(_hubs):
        hub.after_fork()


os.register_at_fork(after_in_child=_after_fork)
