"""What a forked process of a swarm does: it lives as one peer, and its exit code says how it
ended."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amity.core import PeerId
from amity.data import Dataset
from amity.errors import AmityError
from amity.forward import PipeSink
from amity.net.ops.serve import serve
from amity.net.setup import read_setup
from amity.processes import die_with


@dataclass(frozen=True, kw_only=True)
class Life:
    """One peer, as `amity peer run` would run it."""

    name: PeerId
    folder: Path
    dataset: Dataset
    enter: Callable[[PeerId], None] | None = None
    """Called first thing."""

    def live(self, parent: int, sink: PipeSink) -> None:
        """Never returns. All that is printed goes to peer.log."""
        die_with(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        log = os.open(self.folder / "peer.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.stdout, sys.stderr = (os.fdopen(os.dup(fd), "w", buffering=1) for fd in (1, 2))
        code = 1
        try:
            code = self._code(sink)
        finally:
            os._exit(code)

    def _code(self, sink: PipeSink) -> int:
        try:
            if self.enter is not None:
                self.enter(self.name)
            serve(read_setup(self.folder), sink, self.dataset)
            return 0
        except AmityError as error:
            sys.stderr.write(f"amity: {error}\n")
        except SystemExit as error:  # whatever it says, the peer has not done its rounds
            sys.stderr.write(f"amity: {self.name} ended itself before its last round ({error!r})\n")
            return error.code if isinstance(error.code, int) and 0 < error.code < 256 else 1
        except BaseException:
            traceback.print_exc()
        return 1
