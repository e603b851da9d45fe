#!/usr/bin/python3
"""Starts etcd of compose.failover.yaml with a user: Patroni keeps in it who the leader is, and a client that writes to it could name another.

    etcd.py OPTION...     options of etcd, among them --listen-client-urls; the password of root is in ETCD_PASSWORD

Until the user exists, etcd listens on loopback. A database of an earlier release, which has no user, gets it too.
"""
import base64, json, os, re, subprocess, sys, time, urllib.error, urllib.request

options = sys.argv[1:]
port = re.search(r"--listen-client-urls=\S*:(\d+)", " ".join(options))[1]
address = "http://127.0.0.1:" + port


def ask(path, **fields):
    """Returns the status of etcd's answer."""
    request = urllib.request.Request(address + "/v3/" + path, json.dumps(fields).encode())
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def is_open():
    """Whether a program without a password may read."""
    return ask("kv/range", key=base64.b64encode(b"/").decode()) == 200


alone = ["--listen-client-urls=" + address, "--advertise-client-urls=" + address]
etcd = subprocess.Popen(["etcd"] + [one for one in options if "-client-urls=" not in one] + alone)
while etcd.poll() is None:
    try:
        with urllib.request.urlopen(address + "/health", timeout=10):
            break
    except OSError:
        time.sleep(0.1)
if is_open():
    ask("auth/user/add", name="root", password=os.environ["ETCD_PASSWORD"])
    ask("auth/role/add", name="root")
    ask("auth/user/grant", user="root", role="root")
    ask("auth/enable")
if is_open():
    sys.exit("etcd has no user: any client could write to it")
etcd.terminate()
etcd.wait()
os.execvp("etcd", ["etcd"] + options)
