"""The lab: from a moved slider to the new picture, and ten visitors at once for a minute.

Needs the extra `lab`, Playwright and a Chromium. Called in the top folder as python -m benchmarks.lab; writes
lab.md.
"""

import argparse
import asyncio
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.lab.visitor import Visitor

OPTIONS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--visitors", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "dlbjax.cli", "lab", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = process.stdout.readline().split()[4]
    try:
        lines = [*latency(address, args.moves), *asyncio.run(crowd(address, process.pid, args))]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    text = "\n".join(
        ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in lines)]
    )
    print(text)
    (args.out / "lab.md").write_text(text + "\n", "utf-8")


def latency(address: str, moves: int) -> list[tuple[str, str]]:
    """Seconds from a key on a slider to another table of final regret, T = 10⁵, 64 runs, two policies."""
    found = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=OPTIONS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        begin = time.perf_counter()
        page.goto(address)
        changed(page, [])
        found.append(("first picture, with compilation", f"{time.perf_counter() - begin:.1f} s"))
        for title in ("σ, of the noise", "it is given"):
            handle = page.locator(f".noUi-handle:visible:below(:text('{title}'))").first
            times = []
            for i in range(moves):
                handle.focus()
                before, begin = table(page), time.perf_counter()
                page.keyboard.press("ArrowRight" if i < moves / 2 else "ArrowLeft")
                changed(page, before)
                times.append(time.perf_counter() - begin)
                page.wait_for_timeout(300)
            times = times[1:]
            name = {"it is given": "ρ̄ of one policy", "σ, of the noise": "σ, for both policies"}[
                title
            ]
            middle, worst = statistics.median(times), max(times)
            found.append(
                (f"{name}: median, longest of {len(times)}", f"{middle:.2f} s, {worst:.2f} s")
            )
        browser.close()
    return found


def table(page: Page) -> list[str]:
    return page.locator("table.panel-df tbody tr").all_text_contents()


def changed(page: Page, before: list[str]) -> None:
    while table(page) in (before, []):
        page.wait_for_timeout(20)


async def crowd(address: str, server: int, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Visitors who move a slider, wait for the picture and move it again."""
    memory: list[float] = []
    until = time.monotonic() + args.seconds

    async def visit(number: int) -> list[float]:
        times = []
        async with Visitor(address) as visitor:
            await visitor.hears("rounds simulated")
            while time.monotonic() < until:
                begin = time.monotonic()
                await visitor.set(
                    "memory", round(0.5 + 0.01 * ((7 * number + len(times)) % 100), 2)
                )
                await visitor.hears("rounds simulated|nothing new")
                times.append(time.monotonic() - begin)
        return times

    async def weigh() -> None:
        while time.monotonic() < until:
            memory.append(resident(server))
            await asyncio.sleep(1)

    *times, _ = await asyncio.gather(*map(visit, range(args.visitors)), weigh())
    every = [each for mine in times for each in mine]
    third = len(memory) // 3
    return [
        (f"pictures for {args.visitors} visitors in {args.seconds:.0f} s", f"{len(every)}"),
        ("fewest and most for one of them", f"{min(map(len, times))}, {max(map(len, times))}"),
        ("wait for one: median, longest", f"{statistics.median(every):.1f} s, {max(every):.1f} s"),
        ("memory of the server: largest in each third",
         ", ".join(f"{max(memory[i : i + third]):.0f} MB" for i in (0, third, 2 * third))),
    ]  # fmt: skip


def resident(process: int) -> float:
    """Memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024


if __name__ == "__main__":
    main()
