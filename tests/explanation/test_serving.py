"""The page's server: answers, refusals, robustness, and immediate shutdown."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.explanation.operators import find

serving = pytest.importorskip("retrograd.explanation.server", reason="the extra 'explain' is not installed")
MOST_CONNECTIONS = pytest.importorskip("retrograd.explanation.server").MOST_CONNECTIONS
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

HOST = "127.0.0.1:8000"
HEADERS = {"x-retrograd-token": "right", "host": HOST}


def asked(subject: Any, address: str, method: str = "GET", **headers: str) -> Any:
    """Return the answer of the application to a request, without a network."""
    import anyio

    app = serving.application("right", [HOST], *serving._of(subject))

    async def ask() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}") as client:
            return await client.request(method, address, headers={**HEADERS, **headers})

    return anyio.run(ask)


@pytest.fixture(scope="module")
def model() -> Any:
    rg.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 20, 3), nn.ReLU(), nn.Flatten(), nn.Linear(20 * 100, 40))
    x = rg.tensor(np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32))
    return rg.explain(network, x, lambda y: (y * y).sum())


def answer(model: Any, address: str) -> dict[str, Any]:
    found = asked(model, address)
    assert found.status_code == 200, found.text
    return found.json()


def test_what_is_answered_about_a_model(model):
    layer = model.layer("0")
    found = answer(model, "/api/layer?layer=0")
    gw = layer.arrays["gw"].values
    assert found["arrays"]["gw"]["shape"] == [20, 3, 3, 3] and "values" not in found["arrays"]["gw"]
    assert found["first"] == {"name": "gw", "at": int(np.abs(gw).argmax())}
    part = answer(model, "/api/block?layer=0&array=gw&start=4,0,0,0")
    np.testing.assert_allclose(np.reshape(part["values"], part["shape"]), gw[4:8, :3], rtol=1e-6)
    taken = answer(model, "/api/taken?layer=0&array=gw&index=17")
    assert taken["count"] == 200 and taken["sum"] == pytest.approx(gw.ravel()[17], rel=1e-4)
    numerical = answer(model, "/api/numerical?layer=0&array=gw&index=17")["numerical"]
    assert numerical == pytest.approx(gw.ravel()[17], rel=1e-3)
    steps = answer(model, "/api/path_to_loss?layer=0&array=gw&index=17")["steps"]
    assert [each["path"] for each in steps] == ["0", "1", "3"]
    assert [each["path"] for each in answer(model, "/api/model")["layers"]] == ["0", "1", "2", "3"]
    small = answer(rg.explain(nn.Sequential(nn.Linear(2, 3)), rg.ones(2, 2), lambda y: y.sum()), "/api/layer?layer=0")
    assert small["arrays"]["gw"]["values"] == [2.0] * 6 and small["later"] == ["traces"]


def test_an_explanation_is_served_with_its_own_arrays():
    explanation = rg.explain("linear", np.ones((2, 3)), np.ones((4, 3)))
    found = answer(explanation, "/api/explanation?operator=linear")
    assert found["arrays"]["x"]["values"] == [1.0] * 6 and found["settings"] == []
    assert answer(explanation, "/api/traces?operator=linear")["traces"]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("layer?layer=nothing", "no layer 'nothing' ran"),
        ("layer?layer=2", "Flatten is not one of the layers"),
        ("layer", "no layer '' ran"),
        ("block?layer=0&array=none&start=0", "no array 'none'"),
        ("block?layer=0&array=gw&start=0", "no block that begins"),
        ("block?layer=0&array=gw&start=20,0,0,0", "no block that begins"),
        ("block?layer=0&array=gw&start=-1,0,0,0", "no block that begins"),
        ("block?layer=0&array=gw&start=a,b,c,d", "must be a whole number"),
        ("taken?layer=0&array=gw&index=540", "no entry 540"),
        ("taken?layer=0&array=gw&index=-1", "no entry -1"),
        ("taken?layer=0&array=x&index=0", "not one of the arrays that are sums"),
        ("taken?layer=0&array=gw&index=", "must be a whole number"),
        ("numerical?layer=0&array=y&index=0", "no numerical gradient of y"),
        ("numerical?layer=0&array=gw&index=540", "no numerical gradient of gw"),
        ("path_to_loss?layer=0&array=gw&index=540", "no entry 540"),
        ("traces?layer=0", "too large to step through"),
        ("through_time?layer=0&sequence=0&unit=0&input=0", "conv2d has no steps in time"),
        ("through_time?layer=0&sequence=0&unit=0", "input='' must be a whole number"),
    ],
)
def test_questions_without_an_answer(model, address, words):
    found = asked(model, f"/api/{address}")
    assert found.status_code == 400 and words in found.json()["error"]


@pytest.mark.parametrize(
    ("address", "method", "headers", "status"),
    [
        ("/", "GET", {}, 401),
        ("/?token=wrong", "GET", {}, 401),
        ("/?token=right", "GET", {}, 200),
        ("/api/model", "GET", {"x-retrograd-token": "wrong"}, 401),
        ("/api/model", "GET", {"x-retrograd-token": ""}, 401),
        ("/api/model", "GET", {"host": "elsewhere.example"}, 403),
        ("/api/model", "GET", {"origin": "http://elsewhere.example"}, 403),
        ("/api/model", "GET", {"origin": f"http://{HOST}"}, 200),
        ("/api/model", "POST", {}, 405),
        ("/api/model", "DELETE", {}, 405),
        ("/api/model?x=" + "y" * 5000, "GET", {}, 414),
        ("/api/model", "GET", {"content-length": "3"}, 413),
        ("/api/nothing", "GET", {}, 404),
        ("/../etc/passwd", "GET", {}, 404),
    ],
)
def test_who_may_ask_and_how_much(model, address, method, headers, status):
    found = asked(model, address, method, **headers)
    assert found.status_code == status
    assert "set-cookie" not in found.headers
    assert status == 200 or len(found.content) < 300


def test_the_page_of_a_model_carries_its_map(model):
    text = asked(model, "/?token=right").text
    assert '"why_not":"it passes its input on"' in text and "connect-src 'self'" in text


# ---- A server in a separate process

PROGRAM = """
import retrograd as rg
from retrograd import nn
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
rg.explain(model, rg.ones(5, 3), lambda y: y.sum()).show(browser=False)
"""


def started() -> Any:
    """Start the program; yield it and the address that it prints."""
    with subprocess.Popen([sys.executable, "-u", "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            address = program.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            yield program, address
        finally:
            program.kill()


server = pytest.fixture(started, name="server")  # for a test that ends it
lasting = pytest.fixture(started, scope="module", name="lasting")


def fetched(address: str, token: str = "", **headers: str) -> int:
    request = urllib.request.Request(address, headers={"X-Retrograd-Token": token, **headers})
    try:
        with urllib.request.urlopen(request, timeout=30) as found:
            json.loads(found.read())
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code


def wrong(root: str, token: str) -> list[tuple[str, dict[str, str]]]:
    """Send requests of every kind that the server must refuse."""
    mine = {"X-Retrograd-Token": token}
    return [
        (f"{root}/api/model", {"X-Retrograd-Token": "wrong"}),
        (f"{root}/api/model", {**mine, "Host": "elsewhere.example"}),
        (f"{root}/api/model", {**mine, "Origin": "http://elsewhere.example"}),
        (f"{root}/api/model?x={'y' * 5000}", mine),
        (f"{root}/api/taken?layer=0&array=gw&index=nan", mine),
        (f"{root}/api/taken?layer=0", mine),
        (f"{root}/%00/..%2f..%2fetc", mine),
        (f"{root}/api/model", {**mine, "Content-Length": "9"}),
    ]


def test_a_hundred_at_once_and_then_ctrl_c(server):
    program, address = server
    root, token = address.split("/?token=")
    questions = [f"{root}/api/taken?layer={2 * (n % 2)}&array=gw&index={n % 8}" for n in range(100)]
    refused = [each for each in wrong(root, token) for _ in range(4)]
    with ThreadPoolExecutor(100) as pool:
        bad = pool.map(lambda each: fetched(each[0], **each[1]), refused)
        good = [*pool.map(lambda question: fetched(question, token), questions)]
    assert set(good) <= {200, 429} and 200 in good
    assert all(400 <= status < 500 for status in bad)
    assert fetched(f"{root}/api/model", token) == 200 and fetched(f"{root}/api/model", "wrong") == 401
    start = time.monotonic()
    program.send_signal(signal.SIGINT)
    program.wait(timeout=10)
    assert time.monotonic() - start < 3  # about a tenth of a second on an idle machine
    assert program.returncode == 0


def test_too_many_connections_get_a_sentence(server):
    _, address = server
    root, token = address.split("/?token=")
    host, port = root.removeprefix("http://").split(":")
    open_ones = [socket.create_connection((host, int(port)), timeout=30) for _ in range(MOST_CONNECTIONS)]
    try:
        request = urllib.request.Request(f"{root}/api/model", headers={"X-Retrograd-Token": token})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        assert refused.value.code == 429 and refused.value.headers["Connection"] == "close"
        assert f"more than {MOST_CONNECTIONS} connections are open" in json.loads(refused.value.read())["error"]
    finally:
        for each in open_ones:
            each.close()
    end = time.monotonic() + 20
    while fetched(f"{root}/api/model", token) != 200:  # it hears of the closed ones in a moment
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    "text",
    [
        b"nothing at all\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # how TLS begins
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /api/model HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n\r\nhello",
        b"POST /api/model HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\nnothing\r\n",
    ],
    ids=["words", "tls", "version", "header", "address", "long header", "body", "chunks"],
)
def test_what_is_no_request_gets_a_4xx(lasting, text):
    _, address = lasting
    root, token = address.split("/?token=")
    host, port = root.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(text.replace(b"HOST", f"{host}:{port}".encode()))
        assert connection.recv(4096).startswith(b"HTTP/1.1 4")
    assert fetched(f"{root}/api/model", token) == 200


def test_a_port_in_use(lasting):
    _, address = lasting
    port = int(address.split(":")[2].split("/")[0])
    with pytest.raises(OSError, match="in use"):
        rg.explain("linear", np.ones((2, 3)), np.ones((4, 3))).show(port=port, browser=False)


def test_without_the_servers_packages_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "retrograd.explanation.server")
    with pytest.raises(ImportError, match="retrograd\\[explain\\]"):
        find("linear").with_settings({}).show()
