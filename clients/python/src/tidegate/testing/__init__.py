"""For your tests: a fake in memory whose clock can be moved, and a real server on free ports."""

from .clock import FakeClock
from .fake import FakeServer, PublishRecord
from .server import Server, StartError

__all__ = ["FakeClock", "FakeServer", "PublishRecord", "Server", "StartError"]
