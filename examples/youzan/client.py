"""A client of Youzan's protocol, written from docs/youzan.md, with the standard library only.

    python3 client.py http://127.0.0.1:7790 [TOKEN]

runs a session with each command and prints "ok".
"""

import json
import sys
import urllib.request


class CommandFailed(Exception):
    """The server has not carried out the command."""


class DelayQueue:
    """Sends commands. The id of a job is unique among all topics."""

    # A pop without a timeout waits for up to 178 s.
    HTTP_TIMEOUT_S = 190

    def __init__(self, url, token=None):
        self.url = url.rstrip("/") + "/"
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = "Bearer " + token

    def add(self, topic, id, body, delay=0, ttr=60):
        """Adds a job that is ready in `delay` seconds, or replaces the one with this id."""
        self._send(command="add", topic=topic, id=id, delay=delay, TTR=ttr, body=body)

    def pop(self, *topics, timeout=None):
        """Reserves a job for its TTR. Returns its id and body; None if none came within `timeout` seconds."""
        fields = {} if timeout is None else {"timeout": timeout}
        answer = self._send(command="pop", topic=",".join(topics), **fields)
        return (answer["id"], answer["value"]) if answer["id"] else None

    def finish(self, id, topic=None):
        """Ends a job that is done. May be repeated."""
        self._send(command="finish", id=id, **({"topic": topic} if topic else {}))

    def delete(self, id, topic=None):
        """Deletes a job in any state. May be repeated."""
        self._send(command="delete", id=id, **({"topic": topic} if topic else {}))

    def _send(self, **command):
        request = urllib.request.Request(self.url, json.dumps(command).encode(), self.headers)
        with urllib.request.urlopen(request, timeout=self.HTTP_TIMEOUT_S) as response:
            answer = json.load(response)
        if not answer["success"]:
            raise CommandFailed(answer["error"])
        return answer


def session(queue):
    """Every command once. Fails if an answer is not the expected one."""

    def expect(found, expected):
        if found != expected:
            raise SystemExit(f"{found!r} instead of {expected!r}")

    topic = "python-orders"
    queue.add(topic, "py-1", '{"order":1}', delay=2, ttr=30)
    queue.add(topic, "py-2", "never", delay=3600)
    queue.delete("py-2")
    expect(queue.pop(topic, timeout=0), None)
    expect(queue.pop(topic, "python-bills", timeout=60), ("py-1", '{"order":1}'))
    queue.finish("py-1")
    queue.finish("py-1")
    queue.add(topic, "py-3", "old", ttr=30)
    queue.add(topic, "py-3", "new: ü", ttr=1)
    expect(queue.pop(topic, timeout=60), ("py-3", "new: ü"))
    # It is not finished within its TTR.
    expect(queue.pop(topic, timeout=60), ("py-3", "new: ü"))
    queue.finish("py-3", topic)
    try:
        queue.add("not,a,topic", "py-4", "")
    except CommandFailed as error:
        expect("topic" in str(error), True)
    else:
        raise SystemExit("a bad topic was accepted")


if __name__ == "__main__":
    session(DelayQueue(*sys.argv[1:3]))
    print("ok")
