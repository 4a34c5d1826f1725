"""Other servers that this machine may have, and certificates for TLS."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple


@functools.cache
def redis_binary() -> Path | None:
    """Return a Redis server: `redis-server`, or that of Debian's redis-tools, whose file name decides how it starts."""
    for name in ("redis-server", "redis-check-rdb"):
        found = shutil.which(name)
        if found is None:
            continue
        link = Path(tempfile.mkdtemp(prefix="qdeck-redis-"), "redis-server")
        link.symlink_to(found)
        said = subprocess.run([link, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout
        if said.startswith("Redis server v="):
            return link
    return None


class Certificate(NamedTuple):
    """A temporary certificate authority and the certificate that it signed, for 127.0.0.1 and localhost."""

    authority: Path
    chain: Path
    key: Path


def make_certificate(directory: Path) -> Certificate:
    """Make an authority and a server's certificate with `openssl`, valid for a day."""
    ca, ca_key = directory / "ca.pem", directory / "ca.key"
    chain, key, wish, names = (directory / name for name in ("server.pem", "server.key", "server.csr", "names.cnf"))
    names.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n", "utf-8")
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    _openssl(*new, "-x509", "-days", "1", "-subj", "/CN=qdeck tests", "-keyout", ca_key, "-out", ca)
    _openssl(*new, "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", wish)
    signed = ("x509", "-req", "-days", "1", "-in", wish, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial")
    _openssl(*signed, "-extfile", names, "-out", chain)
    return Certificate(ca, chain, key)


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)
