"""Receives the webhooks of a relay, checks their signatures, and prints each job once.

    python3 webhook_receiver.py PORT SECRET

SECRET is that of the relay: whsec_ and base64. Needs Python 3.9 or later, and no packages.
"""

import base64
import hashlib
import hmac
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# A request that is older or newer is refused, so that a recorded one cannot be sent again later.
TOLERANCE_S = 300

# Ids of jobs that were done. A relay delivers at least once, so the same job may come again. A service that has several
# processes keeps them in its database, in the transaction that does the work of the job.
done = set()


def is_signed(secret, headers, body):
    """Whether the request has a valid signature: standardwebhooks.com describes it."""
    job, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > TOLERANCE_S:
        return False
    signed = f"{job}.{sent_at}.".encode() + body
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    signatures = headers.get("webhook-signature", "").split()
    return any(hmac.compare_digest(f"v1,{expected}", signature) for signature in signatures)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not is_signed(self.server.secret, self.headers, body):
            return self.answer(401)
        job = self.headers["webhook-id"]
        if job not in done:
            print(f"{job} {body.decode()}", flush=True)
            done.add(job)
        # The job is acknowledged. With another status it fails, and is retried as the policy of its queue says; 410
        # makes it dead at once; 429 or 503 with Retry-After says when it may come again.
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    port, secret = int(sys.argv[1]), sys.argv[2].removeprefix("whsec_")
    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    server.secret = base64.b64decode(secret)
    server.serve_forever()


if __name__ == "__main__":
    main()
