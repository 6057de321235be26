"""The bad line of the soak is what it says: late and in order, and shut it lets nobody through."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress

import pytest

from amity.net.ops.swarm import free_ports
from tests.lossy import AGAIN, Door, Line


def test_a_chunk_is_late_by_the_delay_and_by_every_loss_of_its_slowest_segment() -> None:
    draw = random.Random(1)
    assert Line(loss=0).late(10**6, draw) == 0.2
    one = [Line(0.05, 0.2).late(1448, draw) - 0.2 for _ in range(20000)]
    assert sum(wait > 0 for wait in one) / 20000 == pytest.approx(0.05, abs=0.01)
    assert {round(wait / AGAIN) for wait in one} <= {0, 1, 3, 7, 15}, "waits double"
    ten = [Line(0.05, 0).late(14480, draw) for _ in range(5000)]
    assert sum(wait > 0 for wait in ten) / 5000 == pytest.approx(1 - 0.95**10, abs=0.03)


def test_a_door_passes_all_bytes_on_in_order_and_none_when_it_is_shut() -> None:
    inside, outside = (("127.0.0.1", port) for port in free_ports(2))
    sent = random.Random(2).randbytes(300_000)
    with socket.create_server(inside) as server:

        def echo() -> None:
            guest, _ = server.accept()
            with guest, suppress(ConnectionResetError):
                while got := guest.recv(65536):
                    guest.sendall(got)

        thread = threading.Thread(target=echo, daemon=True)
        thread.start()
        door = Door(outside, inside, Line(loss=0.02, delay=0.01, resets=0)).open()
        try:
            with socket.create_connection(outside, timeout=60) as guest:
                threading.Thread(target=guest.sendall, args=(sent,), daemon=True).start()
                back = b""
                while len(back) < len(sent):
                    back += guest.recv(65536)
                assert back == sent
                door.shut.set()
                with pytest.raises(ConnectionResetError):
                    guest.recv(1)
            with (  # at once, or a moment later
                pytest.raises(ConnectionResetError),
                socket.create_connection(outside, timeout=60) as guest,
            ):
                guest.recv(1)
        finally:
            door.close()
        thread.join(60)
