"""The lab as its visitors meet it: a server of its own, hostile clients, and a real browser."""

import asyncio
import csv
import io
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import panel as pn
import pytest
from bokeh.client import pull_session
from bokeh.models import Slider
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from dlbjax.lab import computation
from dlbjax.lab import server as lab_server
from dlbjax.lab.computation import StaleError
from dlbjax.lab.outcomes import Computer
from dlbjax.lab.server import make_server
from dlbjax.lab.settings import LONGEST
from tests.lab.visitor import Visitor, token_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
           "--disable-background-networking", "--disable-component-update"]  # fmt: skip
SMALL = "rounds=1000&runs=8"
PROBLEM = """
[system]
A = [[0.6, 0.1], [0.0, 0.5]]
B = [[0.3, 0.0], [0.0, 0.4]]
omega = [1.0, 0.5]
theta = [0.1, 0.3]
sigma = 0.01
[actions]
kind = "budget"
low = 0.0
high = [1.0, 1.0]
total = 1.5
"""

pytestmark = [
    pytest.mark.slow,
    # Clients that leave without a word are part of this.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The address of a lab in a process of its own."""
    file = tmp_path_factory.mktemp("lab") / "two.toml"
    file.write_text(PROBLEM, "utf-8")
    command = [sys.executable, "-m", "dlbjax.cli", "lab", str(file), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.stdout.readline()
    yield re.search(r"http://127\.0\.0\.1:\d+/", said).group()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "dlbjax/lab" not in rest, rest  # in no traceback; Bokeh reports closed sockets


def read(url):
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()


def status(url):
    try:
        return urllib.request.urlopen(url, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def sockets(address):
    return address.replace("http", "ws") + "ws"


def test_it_listens_on_this_machine_only(address):
    port = int(re.search(r":(\d+)/", address).group(1))
    listening = []
    for name in ("tcp", "tcp6"):
        rows = [line.split() for line in Path("/proc/net", name).read_text().splitlines()[1:]]
        listening += [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_foreign_origin_is_rejected(address):
    token = token_of(address)

    async def connect(origin):
        request = HTTPRequest(sockets(address), headers={"Origin": origin})
        socket = await websocket_connect(request, subprotocols=["bokeh", token])
        socket.close()

    asyncio.run(connect(address.rstrip("/")))
    for origin in (
        "http://evil.example",
        address.rstrip("/").replace("127.0.0.1", "evil.example"),
        "null",
    ):
        with pytest.raises(HTTPClientError, match="403"):
            asyncio.run(connect(origin))


def test_strange_addresses_get_a_page_or_an_error(address):
    for query in ("rounds=1e12", "sigma=nan", "policy=" + "x" * 3000, "table=[[1]]", "source=given&budget=-1",
                  "%00%ff", "kept=1&kept.runs=1e9", "bokeh-session-id=x"):  # fmt: skip
        assert status(f"{address}?{query}") in (200, 400, 403, 404)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        read(address + "../../etc/passwd")


@pytest.fixture
def session(address):
    """A visitor without a browser, who can send what no widget would."""
    made = pull_session(url=address, arguments={"rounds": "1000", "runs": "8"})
    yield made
    made.close()


def test_values_that_no_widget_sends_are_rejected_and_the_page_goes_on(session, address):
    sliders = {str(slider.title): slider for slider in session.document.select({"type": Slider})}
    rho_bar = next(slider for title, slider in sliders.items() if "given" in title)
    memory = next(slider for title, slider in sliders.items() if "memory" in title)
    for slider, values in ((memory, [1e300, -5.0, 99.0]), (rho_bar, [7.0, -1.0, 1.0])):
        for value in values:
            slider.value = value
    session.force_roundtrip()
    memory.value = 0.5
    session.force_roundtrip()
    assert "<html" in read(address)


def test_a_message_that_is_too_large_ends_its_connection_only(address):
    token = token_of(address)

    async def flood():
        socket = await websocket_connect(
            HTTPRequest(sockets(address)), subprotocols=["bokeh", token]
        )
        await socket.write_message("x" * 2**21)
        while await asyncio.wait_for(socket.read_message(), 20) is not None:
            pass  # None: the server closed it

    asyncio.run(flood())
    assert "<html" in read(address)


@contextmanager
def serving():
    """A lab served by a thread of this process, so that a test can change parts of it."""
    started = Future()

    async def run():
        stop = asyncio.Event()
        server = make_server()
        server.start()
        loop = asyncio.get_running_loop()
        started.set_result((server, partial(loop.call_soon_threadsafe, stop.set)))
        await stop.wait()
        server.stop()

    thread = threading.Thread(target=asyncio.run, args=[run()], daemon=True)
    thread.start()
    server, stop = started.result(60)
    try:
        yield server
    finally:
        stop()
        thread.join(30)


def test_visitors_who_leave_in_the_middle_hold_nobody_up(monkeypatch):
    """What they asked for never ends by itself, takes all threads, and ends because they left.

    If it went on, it would end by its limit, and nobody else would get a picture before.
    """
    threads, ended, over = 2, [], threading.Event()
    compute = Computer.compute

    def endless(self, state, ticket):
        if state.settings.rounds != LONGEST:
            return compute(self, state, ticket)
        try:
            while not over.wait(0.01):
                ticket.tick(1)
        except Exception as error:
            ended.append(type(error))
            raise

    async def visit(address):
        async with AsyncExitStack() as opened:
            for _ in range(2 * threads):
                leaves = Visitor(f"{address}?rounds={LONGEST}")
                await opened.enter_async_context(leaves)
                await leaves.hears("waiting for|million rounds")
        async with Visitor(f"{address}?view=system") as last:
            await last.hears("nothing new to simulate")

    pool = ThreadPoolExecutor(threads)
    monkeypatch.setattr(computation, "_pool", pool)
    monkeypatch.setattr(computation, "MOST_SECONDS", 90.0)
    monkeypatch.setattr(lab_server, "_PATIENCE", 600)  # nothing ends with its session
    monkeypatch.setattr(Computer, "compute", endless)
    with serving() as server:
        try:
            asyncio.run(visit(f"http://127.0.0.1:{server.port}/"))
        finally:
            over.set()
            pool.shutdown(cancel_futures=True)
    assert ended == threads * [StaleError]


# --- a browser ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here (on Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield made
        made.close()


@pytest.fixture
def open_page(chromium, request):
    """Open pages, and see that none logs an error or loads anything from elsewhere."""
    contexts, trouble = [], []

    def make(query="", width=1280, height=900, address=None, held=None):
        address = address or request.getfixturevalue("address")
        context = chromium.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        own = (address, sockets(address)[:-2], "data:", "blob:")
        page.on("console", lambda message: message.type == "error" and trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda sent: sent.url.startswith(own) or trouble.append(sent.url))
        if held is not None:
            page.route("**/bokeh.min.js*", held)
        page.goto(f"{address}?{query}")
        return page

    yield make
    for context in contexts:
        context.close()
    assert trouble == []


def regrets(page):
    """The table of final regret, a row for every policy."""
    rows = page.locator("table.panel-df tbody tr")
    return [" ".join(row.split()) for row in rows.all_text_contents()]


def changed(page, before):
    """The table once it is another one."""
    end = time.monotonic() + 30
    while (now := regrets(page)) == before:
        assert time.monotonic() < end, before
        page.wait_for_timeout(50)
    return now


def drag(page, title, by):
    """Drag the handle of the slider with this title by so many pixels."""
    slider = page.locator(f".noUi-handle:visible:below(:text('{title}'))").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 6):
        page.mouse.move(x + by * step / 5, y)
    page.mouse.up()


def tick(page, label):
    page.locator(f'input:has(+ :text-is("{label}"))').first.check()


def download(page, name):
    """The bytes of a file that is taken away."""
    with page.expect_download() as started:
        page.get_by_text(name, exact=True).click()
    assert started.value.suggested_filename == name
    return Path(started.value.path()).read_bytes()


def test_tick_drag_look_and_take_away(open_page, tmp_path, monkeypatch):
    page = open_page(f"{SMALL}&source=synthetic&policy=")
    page.get_by_text("Tick a policy.").wait_for()
    assert page.get_by_label("source").locator("option").all_inner_texts()[:2] == [
        "two.toml",
        "the paper's synthetic problem",
    ]
    for label in ("DynLin-UCB", "DynLin-UCB tight"):
        tick(page, label)
    end = time.monotonic() + 30
    while len(regrets(page)) < 2:
        assert time.monotonic() < end
        page.wait_for_timeout(50)
    first, picture = regrets(page), page.locator(".bk-Figure").nth(1)
    seen = picture.screenshot()
    drag(page, "it is given", 60)
    second = changed(page, first)
    assert second[1] == first[1]  # only the first policy was given another ρ̄
    drag(page, "σ, of the noise", 50)
    changed(page, second)
    page.wait_for_timeout(1000)
    assert picture.screenshot() != seen
    sigma = re.search(r"sigma=([\d.]+)", page.url)[1]
    label = page.get_by_text("σ, of the noise:").first.text_content()
    assert label.split() == ["σ,", "of", "the", "noise:", sigma]  # what was dragged is what counts
    assert re.search(r"policy=dynlin_ucb%3Arho_bar%3D0\.\d+", page.url)

    page.get_by_text("Take away").click()
    script = page.get_by_label("Copy as Python").input_value()
    assert download(page, "regret.py").decode() == script
    rows = list(csv.DictReader(download(page, "regret.csv").decode().splitlines()))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copied.py").write_text(script, "utf-8")
    results = runpy.run_path("copied.py")["results"]
    plt.close("all")
    assert list(results) == ["DynLin-UCB", "DynLin-UCB tight"]
    for name, result in results.items():
        for kind in ("expected", "offline", "realised"):
            mine = [row for row in rows if (row["policy"], row["measure"]) == (name, kind)]
            assert [float(row["mean"]) for row in mine] == result.summary(kind).mean.tolist()
    pixels = plt.imread(io.BytesIO(download(page, "regret.png")))
    assert pixels.shape[0] > 400
    assert pixels.std() > 0.05
    drawn = ElementTree.fromstring(download(page, "regret.svg"))
    assert drawn.tag.endswith("svg")
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}path"))) > 10

    kept = regrets(page)
    page.reload()  # the address holds it all
    assert changed(page, []) == kept


def test_every_view_has_a_picture_of_a_phone_s_and_of_a_desk_s_width(open_page):
    page = open_page(SMALL)
    changed(page, [])
    for width, height in ((1280, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for name, text in (
            ("Vertices", "policy"),
            ("One run", "first round"),
            ("System", "dlbjax lab"),
            ("Sensitivity", "falls"),
            ("Regret", "offline"),
        ):
            page.get_by_text(name, exact=True).click()
            page.get_by_text(re.compile(r"\d s, ")).wait_for()
            page.get_by_text(text).first.wait_for()
            picture = page.locator(".bk-Figure").nth(1)
            picture.wait_for()
            page.wait_for_timeout(200)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    controls = page.get_by_text("Policies", exact=True).bounding_box()
    box = picture.bounding_box()
    assert box["y"] + box["height"] < min(height, controls["y"])  # the picture comes first

    before = regrets(page)
    λ = page.get_by_label("λ").first
    for text in ("much", "-1"):  # what is wrong is said beside its field, and the picture stays
        λ.fill(text)
        λ.press("Enter")
        message = page.get_by_text(re.compile("(λ|lam) must be"))
        message.wait_for()
        gap = message.bounding_box()["y"] - λ.bounding_box()["y"]
        assert 0 < gap < 80
        assert regrets(page) == before
    λ.fill("3")
    λ.press("Enter")
    after = changed(page, before)
    assert message.count() == 0
    tick(page, "bounds")
    tick(page, "log regret")
    page.get_by_text("Keep these settings").click()
    four = changed(page, after)
    assert four[:2] == after
    page.get_by_text("Drop what was kept").click()
    assert changed(page, four) == after


def test_nothing_is_loaded_from_elsewhere(open_page, monkeypatch):
    """Not even where a session was discarded before its browser had loaded the scripts, and is made again."""

    def hold(route):
        end = time.monotonic() + 30
        while server.get_sessions():
            assert time.monotonic() < end
            time.sleep(0.05)
        route.continue_()

    often = partial(pn.io.server.get_server, check_unused_sessions_milliseconds=200)
    monkeypatch.setattr(pn.io.server, "get_server", often)
    monkeypatch.setattr(lab_server, "_PATIENCE", 0.1)
    with serving() as server:
        visit = partial(open_page, address=f"http://127.0.0.1:{server.port}/", held=hold)
        for query, text in (
            ("rounds=7", "The page starts from its defaults"),
            ("source=delayed&policy=dynlin_ucb", "There is no picture until this is corrected"),
        ):
            page = visit(query)
            page.get_by_text(text).wait_for()
            page.close()
        page = visit(f"rounds={LONGEST}&runs=128&policy=exp3")
        for name in ("One run", "Sensitivity", "System"):
            page.get_by_text(name, exact=True).click()
        page.get_by_text("nothing new to simulate").wait_for()
        page.wait_for_timeout(500)
