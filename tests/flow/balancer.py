"""What stands before several web processes: connections go to them in turn."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress


class Balancer:
    """Listens on `port` until closed. A process that refuses is passed over."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                self._ports.append(self._ports.pop(0))
                threading.Thread(target=self._join, args=(connection, list(self._ports)), daemon=True).start()

    def _join(self, connection: socket.socket, ports: Sequence[int]) -> None:
        with connection:
            for port in ports:
                with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as web:
                    back = threading.Thread(target=_copy, args=(web, connection), daemon=True)
                    back.start()
                    _copy(connection, web)
                    back.join()
                    return

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
