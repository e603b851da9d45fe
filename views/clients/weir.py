"""An agent of Weir in Python 3.9 or newer, without packages. Copy this file beside your program.

    import weir

    def handle(event):
        print(event["webhook_name"], event["event_type"], weir.body(event))

    weir.Agent("https://weir.example.org", credential_file="agent.credential").run(handle)

A delivery is acknowledged when `handle` returns, and attempted again later when it raises: see Retry. Its lease is extended while `handle` works.
`event` has the members of the API, and "attempt". It can come twice: use event["id"] as a key. With concurrency 1, events of a webhook are handled
in their order; one that failed comes again after later ones. `run` ends on SIGTERM, SIGINT or stop(), after the handlers that run then.
"""
import base64
import contextlib
import http.client
import itertools
import json
import logging
import pathlib
import queue
import random
import signal
import threading
import time
import urllib.parse

log = logging.getLogger("weir")


class WeirError(Exception):
    """A refused request: `status`, `code` and the text say what to change."""

    def __init__(self, path, status, answer):
        faults = "; ".join(f"{fault.get('pointer', '')}: {fault.get('detail', '')}" for fault in answer.get("errors", []))
        super().__init__(f"{path}: {status} {answer.get('code', '')}: {faults or answer.get('detail', '')}")
        self.status, self.code = status, answer.get("code")


class Retry(Exception):
    """Raised by a handler: the next attempt is after `delay_seconds`, at most 86,400. After another error Weir waits longer with each attempt."""

    def __init__(self, reason, delay_seconds):
        super().__init__(reason)
        self.delay_seconds = min(max(delay_seconds, 0), 86_400)


def body(event):
    """The bytes that the sender sent."""
    return event["body"].encode() if "body" in event else base64.b64decode(event["body_base64"])


class Agent:
    """An agent. Give `credential`, or `credential_file`, which is read again for each session. lease_seconds: 5 to 3,600."""

    def __init__(self, url, credential=None, credential_file=None, lease_seconds=60, wait_seconds=20):
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ValueError(f"{url} is not an http or https URL")
        self._prefix = self._url.path.rstrip("/") + "/api/v1/agent"
        self._read = lambda: (credential or pathlib.Path(credential_file).read_text("utf-8")).strip()
        self._read()
        self._lease_seconds, self._wait_seconds, self._drain_seconds = lease_seconds, wait_seconds, 30
        self._session, self._session_lock, self._connections = ("", 0.0), threading.Lock(), threading.local()
        self._claiming, self._stopping, self._end = None, threading.Event(), float("inf")
        self._held, self._begun, self._changed = set(), set(), threading.Condition()

    def me(self):
        """id, name, pending and oldest_pending_seconds of the agent."""
        return self._call("GET", "/me")

    def stop(self, *_):
        """Ends run() after the handlers that run now."""
        self._end = min(self._end, time.monotonic() + max(self._drain_seconds, 5))
        self._stopping.set()
        with contextlib.suppress(OSError, AttributeError):
            self._claiming.sock.shutdown(2)

    def run(self, handle, concurrency=1, drain_seconds=30):
        """Claims and handles up to `concurrency` (1 to 1,000) deliveries at a time until stop(). Raises WeirError when it is refused."""
        self._drain_seconds = drain_seconds
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self.stop)
        work = queue.SimpleQueue()
        for target, given in [(self._extend, ())] + [(self._work, (work, handle))] * concurrency:
            threading.Thread(target=target, args=given, daemon=True).start()
        claim = {"lease_seconds": self._lease_seconds, "wait_seconds": self._wait_seconds}
        try:
            while not self._stopping.is_set():
                with self._changed:
                    self._changed.wait_for(lambda: len(self._held) < concurrency or self._stopping.is_set(), 1)
                    claim["max"] = concurrency - len(self._held)
                self._claiming = self._connection()
                for delivery in self._call("POST", "/deliveries/claim", claim, True)["deliveries"] if claim["max"] > 0 else []:
                    with self._changed:
                        self._held.add(delivery["receipt"])
                    work.put(delivery)
        finally:
            self._claiming = None
            self.stop()
            with self._changed:
                waiting, self._held = self._held - self._begun, self._held & self._begun
            # The attempt does not count.
            self._settle(list(waiting), "/deliveries/nack", {"release": True})
            with self._changed:
                if not self._changed.wait_for(lambda: not self._begun, min(drain_seconds, self._end - time.monotonic())):
                    log.warning("%d handlers still run; their deliveries come again", len(self._begun))

    def _work(self, work, handle):
        while True:
            delivery = work.get()
            receipt = delivery["receipt"]
            with self._changed:
                # Returned, or its lease was lost.
                if self._stopping.is_set() or receipt not in self._held:
                    continue
                self._begun.add(receipt)
            path, members = "/deliveries/ack", {}
            try:
                handle({**delivery["event"], "attempt": delivery["attempt"]})
            except BaseException as error:  # Also SystemExit, which would end this thread alone.
                log.warning("%s failed: %r", delivery["event"]["id"], error)
                path, members = "/deliveries/nack", {"reason": repr(error)}
                if isinstance(error, Retry):
                    members["delay_seconds"] = error.delay_seconds
            self._settle([receipt], path, members)
            with self._changed:
                self._held.discard(receipt)
                self._begun.discard(receipt)
                self._changed.notify_all()

    def _extend(self):
        while True:
            time.sleep(self._lease_seconds / 3)
            self._settle(list(self._held), "/deliveries/extend", {"lease_seconds": self._lease_seconds})

    def _settle(self, receipts, path, members):
        while receipts:
            try:
                answer = self._call("POST", path, {"receipts": receipts, **members})
            except WeirError as error:
                return log.error("%s is not settled: %s", ", ".join(receipts), error)
            for receipt in answer.get("gone", []):
                log.warning("the lease of %s was lost; the delivery comes again", receipt)
                with self._changed:
                    self._held.discard(receipt)
            # The server that stores them does not answer now.
            receipts = answer.get("away", [])
            time.sleep(1 if receipts else 0)

    def _token(self, is_claim):
        with self._session_lock:
            if time.monotonic() > self._session[1]:
                opened = self._call("POST", "/session", {}, is_claim, self._read())
                self._session = (opened.get("access_token", ""), time.monotonic() + opened.get("expires_in", 0) - 60)
            return self._session[0]

    def _call(self, method, path, given=None, is_claim=False, credential=None):
        """The answer of the API; repeated as the contract says. Without deliveries and receipts: a claim that was stopped, or the end of the drain."""
        renewed = False
        is_over = lambda: is_claim and self._stopping.is_set() or time.monotonic() > self._end
        for tries in itertools.count():
            wait = min(2**tries, 30) * random.uniform(0.5, 1)
            try:
                token = "" if is_over() else credential or self._token(is_claim)
                if is_over():
                    return {"deliveries": []}
                status, headers, answer = self._send(method, path, given, token)
                if status == 200 and answer is not None:
                    return answer
                if status == 401 and not credential and not renewed:
                    renewed, self._session, wait = True, ("", 0.0), 0
                elif status not in (408, 429, 500, 502, 503, 504):
                    raise WeirError(path, status, answer or {"detail": "Weir did not answer this: check the URL"})
                elif headers.get("Retry-After", "").isdigit():
                    wait = int(headers["Retry-After"])
            except (OSError, http.client.HTTPException, ValueError) as error:
                is_claim and self._stopping.is_set() or log.warning("%s: %r", path, error)
            # A stop ends the wait; waits after it are short, and a claim has none.
            time.sleep(0 if is_claim else min(wait, 1)) if self._stopping.is_set() else self._stopping.wait(wait)

    def _connection(self):
        if not hasattr(self._connections, "one"):
            kind = {"https": http.client.HTTPSConnection, "http": http.client.HTTPConnection}[self._url.scheme]
            self._connections.one, self._connections.used = kind(self._url.hostname, self._url.port, timeout=60), float("-inf")
        return self._connections.one

    def _send(self, method, path, given, token):
        connection, mine = self._connection(), self._connections
        # Weir closes idle connections after 8 seconds. After an error, the next answer would be that of this request.
        if time.monotonic() - mine.used > 5:
            connection.close()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "weir.py"}
        mine.used = float("-inf")
        connection.request(method, self._prefix + path, json.dumps(given) if method == "POST" else None, headers)
        response = connection.getresponse()
        text, mine.used = response.read(), time.monotonic()
        return response.status, response.headers, json.loads(text) if response.headers.get_content_subtype() in ("json", "problem+json") else None
