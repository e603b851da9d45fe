"""An agent of Weir in Python 3.9 or newer, without packages. Copy this file beside your program.

    import weir

    def handle(event):
        print(event["webhook_name"], event["event_type"], weir.body(event))

    weir.Agent("https://weir.example.org", credential_file="agent.credential").run(handle)

A delivery is acknowledged when `handle` returns, and attempted again later when it raises. Its lease is extended while `handle` works.
An event can come twice: use event["id"] as a key. With concurrency 1, events of a webhook are handled in their order; an event that
failed comes again after later ones. `run` ends on SIGTERM, SIGINT or stop(), after the handlers that run then.
"""
import base64
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
REPEATED = {408, 429, 500, 502, 503, 504}


class WeirError(Exception):
    """A refused request: `status`, `code` and the text say what to change."""

    def __init__(self, path, status, answer):
        super().__init__(f"{path}: {status} {answer.get('code', '')}: {answer.get('detail', '')}")
        self.status, self.code = status, answer.get("code")


def body(event):
    """The bytes that the sender sent."""
    return event["body"].encode() if "body" in event else base64.b64decode(event["body_base64"])


class Agent:
    """An agent. Give `credential`, or `credential_file`, which is read again for each session. lease_seconds: 5 to 3,600."""

    def __init__(self, url, credential=None, credential_file=None, lease_seconds=60, wait_seconds=20):
        self._url = urllib.parse.urlsplit(url)
        self._prefix = self._url.path.rstrip("/") + "/api/v1/agent"
        self._credential, self._credential_file = credential, credential_file
        self._lease_seconds, self._wait_seconds = lease_seconds, wait_seconds
        self._session, self._session_lock, self._connections = ("", 0.0), threading.Lock(), threading.local()
        self._claiming, self._stopping, self._end = None, threading.Event(), float("inf")
        self._held, self._begun, self._changed = {}, set(), threading.Condition()

    def me(self):
        """id, name, pending and oldest_pending_seconds of the agent."""
        return self._call("GET", "/me")

    def stop(self, *_):
        """Ends run() after the handlers that run now."""
        self._stopping.set()
        if self._claiming is not None and self._claiming.sock is not None:
            self._claiming.sock.shutdown(2)

    def run(self, handle, concurrency=1, drain_seconds=30):
        """Claims and handles up to `concurrency` (1 to 1,000) deliveries at a time until stop(). Raises WeirError when it is refused."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self.stop)
        work = queue.SimpleQueue()
        for _ in range(concurrency):
            threading.Thread(target=self._work, args=(work, handle), daemon=True).start()
        threading.Thread(target=self._extend, daemon=True).start()
        try:
            while not self._stopping.is_set():
                with self._changed:
                    self._changed.wait_for(lambda: len(self._held) < concurrency or self._stopping.is_set(), 1)
                    room = concurrency - len(self._held)
                for delivery in self._claim(room) if room > 0 else []:
                    with self._changed:
                        self._held[delivery["receipt"]] = delivery
                    work.put(delivery)
        finally:
            self._stopping.set()
            self._drain(drain_seconds)

    def _claim(self, count):
        claim = {"max": count, "lease_seconds": self._lease_seconds, "wait_seconds": self._wait_seconds}
        self._claiming = self._connection()
        answer = self._call("POST", "/deliveries/claim", claim, interrupted=self._stopping.is_set)
        return answer["deliveries"] if answer else []

    def _work(self, work, handle):
        while True:
            delivery = work.get()
            receipt = delivery["receipt"]
            with self._changed:
                # Returned, or its lease was lost.
                if self._stopping.is_set() or receipt not in self._held:
                    continue
                self._begun.add(receipt)
            try:
                handle(delivery["event"])
                settlement = ("/deliveries/ack", {})
            except Exception as error:  # What a handler raises is the reason of the next attempt.
                log.warning("%s failed: %r", delivery["event"]["id"], error)
                settlement = ("/deliveries/nack", {"reason": repr(error)})
            try:
                self._settle([receipt], *settlement)
            except WeirError as error:
                log.error("%s is not settled: %s", delivery["event"]["id"], error)
            with self._changed:
                self._held.pop(receipt, None)
                self._begun.discard(receipt)
                self._changed.notify_all()

    def _extend(self):
        while True:
            time.sleep(self._lease_seconds / 3)
            with self._changed:
                receipts = list(self._held)
            try:
                self._settle(receipts, "/deliveries/extend", {"lease_seconds": self._lease_seconds})
            except WeirError as error:
                log.error("leases are not extended: %s", error)

    def _drain(self, seconds):
        """Returns what has not begun, without counting the attempt, and waits for the rest."""
        self._end = time.monotonic() + max(seconds, 5)
        with self._changed:
            waiting = [receipt for receipt in self._held if receipt not in self._begun]
            for receipt in waiting:
                del self._held[receipt]
        if waiting:
            self._settle(waiting, "/deliveries/nack", {"release": True})
        with self._changed:
            if not self._changed.wait_for(lambda: not self._begun, seconds):
                log.warning("%d handlers still run; their deliveries come again", len(self._begun))

    def _settle(self, receipts, path, members):
        while receipts:
            answer = self._call("POST", path, {"receipts": receipts, **members}) or {}
            for receipt in answer.get("gone", []):
                log.warning("the lease of %s was lost; the delivery comes again", receipt)
                with self._changed:
                    self._held.pop(receipt, None)
            # The server that stores them does not answer now.
            receipts = answer.get("away", [])
            if receipts:
                time.sleep(1)

    def _token(self):
        with self._session_lock:
            if time.monotonic() > self._session[1]:
                credential = self._credential or pathlib.Path(self._credential_file).read_text("utf-8").strip()
                opened = self._call("POST", "/session", {}, credential)
                self._session = (opened["access_token"], time.monotonic() + opened["expires_in"] - 60)
            return self._session[0]

    def _call(self, method, path, given=None, credential=None, interrupted=lambda: False):
        """The answer of the API; repeated as the contract says. None: interrupted, or the end of the drain."""
        renewed = False
        for tries in itertools.count():
            if interrupted() or time.monotonic() > self._end:
                return None
            wait = min(2**tries, 30) * random.uniform(0.5, 1)
            try:
                token = credential or self._token()
                status, headers, answer = self._send(method, path, given, token)
                if status == 200:
                    return answer
                if status == 401 and not credential and not renewed:
                    renewed, self._session, wait = True, ("", 0.0), 0
                elif status not in REPEATED:
                    raise WeirError(path, status, answer)
                elif headers.get("Retry-After", "").isdigit():
                    wait = int(headers["Retry-After"])
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not interrupted():
                    log.warning("%s: %r", path, error)
            time.sleep(wait)

    def _connection(self):
        if not hasattr(self._connections, "one"):
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._connections.one = kind(self._url.hostname, self._url.port, timeout=60)
        return self._connections.one

    def _send(self, method, path, given, token):
        connection = self._connection()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "weir.py"}
        try:
            connection.request(method, self._prefix + path, json.dumps(given) if method == "POST" else None, headers)
            response = connection.getresponse()
            return response.status, response.headers, json.loads(response.read() or b"{}")
        except BaseException:
            connection.close()
            raise
