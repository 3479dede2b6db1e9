"""A local sandbox that is started before anybody orders it, so that an order finds it loaded.

It has walls, limits and a payload that waits (`sandbox_payload.held`), and nothing of any repository, token or person.
An order is laid into its directory, which then gets the sandbox's name; its keeper is told that name and does the rest.
Whoever made it holds the other end of a socket: when that closes, by death as well, a spare that was not handed over is
gone. A directory that has its name and lost its spare waits for a keeper like any other.
"""

from __future__ import annotations

import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass, replace

from app.domain.spare import HandOver
from app.sandbox.cgroup import remove_cgroups
from app.sandbox.keeper_start import start_keeper
from app.sandbox.limits import user_threads
from app.sandbox.order import OF_NOBODY, KeeperOrder
from app.sandbox.state_dir import StateDir
from sandbox_payload.wire import LOADED

SPARE = ".spare"
"""What the names of their directories begin with."""

_ANSWER_S = 3.0
_END_S = 5.0


@dataclass(frozen=True)
class Spare:
    """`threads`: how many the user had on this host when it was made, on which one of its limits stands."""

    directory: StateDir
    size: KeeperOrder
    threads: int
    _at: HandOver
    _keeper: socket.socket

    @classmethod
    def start(cls, directory: StateDir, size: KeeperOrder, at: HandOver) -> Spare:
        """`directory` has what every sandbox has. Raises Unexpected."""
        directory.write_size(size)
        threads = user_threads()
        ours, its = socket.socketpair()
        try:
            with its:
                start_keeper(directory, its)
        except BaseException:
            ours.close()
            raise
        return cls(directory, size, threads, at, ours)

    @property
    def lives(self) -> bool:
        try:
            # Nothing is ever said to be read: an end is all that there can be.
            self._keeper.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    @property
    def is_loaded(self) -> bool:
        """Before that its walls may not stand yet, and they are built by the directory's name."""
        return (self.directory.state / LOADED).exists()

    def fits(self, asked: KeeperOrder) -> bool:
        """Whether an order could not have been told from one that it was made for."""
        room = asked.pace.max_threads // 2
        return replace(asked, **OF_NOBODY) == self.size and user_threads() < self.threads + room

    def hand_over(self, name: str) -> None:
        """Its directory has got that name, with an order in it. Waits until the keeper has taken it over; where that
        does not happen, nobody has.
        """
        self._keeper.settimeout(_ANSWER_S)
        self._at.before()
        with suppress(OSError):
            self._keeper.sendall(name.encode())
            self._keeper.recv(1)
        self._at.after()

    def discard(self) -> None:
        """The end of one that was not handed over, and of all that was made for it; waits for it. Of one that was, only
        the socket is closed.
        """
        self._keeper.settimeout(_END_S)
        with self._keeper, suppress(OSError):
            self._keeper.shutdown(socket.SHUT_WR)
            while self._keeper.recv(100):
                pass
        # What its keeper has done already, unless it was killed.
        remove_cgroups(self.directory.read_cgroups())
        shutil.rmtree(self.directory.path, ignore_errors=True)
