"""A server of public files on this machine."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture
def public(tmp_path, monkeypatch):
    """A folder, and the address at which its files are served."""
    pytest.importorskip("pooch")
    folder = tmp_path / "public"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as httpd:
        thread = threading.Thread(
            target=httpd.serve_forever, kwargs={"poll_interval": 0.02}
        )  # seconds to wait at the end
        thread.start()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield folder, f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()
