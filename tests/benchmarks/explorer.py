"""How soon an explorer is there in a browser, and how soon it answers a key.

`python -m tests.benchmarks.explorer` prints a row per number of queries. First paint: from the
start of the navigation until rows stand there and two frames have been drawn. Key to paint: from
an arrow key until the second frame after it, with the next query open; and the browser's own
processor time for it, in which other work of the machine has no part.
"""

import tempfile
from pathlib import Path
from statistics import median

from tests.benchmarks.page import evaluation
from tests.browser import Browser

SIZES, HITS = (100, 1_000, 10_000), 100
BEST_OF, KEYS = 5, 60
READY = """new Promise(done => {
  const look = () => document.querySelector('.x-space > [role=row]')
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
    : setTimeout(look, 2);
  look();
})"""
PRESSED = f"""(async () => {{
  const grid = document.querySelector('.x-frame [role=grid]'), took = [];
  const frame = () => new Promise(done => requestAnimationFrame(done));
  grid.focus();
  for (let n = 0; n < {KEYS}; n += 1) {{
    const start = performance.now();
    grid.dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowDown', bubbles: true}}));
    await frame(); await frame();
    took.push(performance.now() - start);
  }}
  return took;
}})()"""


def busy(browser: Browser) -> float:
    """Return the seconds that the page's thread has worked."""
    found = browser.send("Performance.getMetrics")["metrics"]
    return next(one["value"] for one in found if one["name"] == "TaskDuration")


def main() -> None:
    print("| queries | file | first paint | key to paint: median | worst | processor time a key |")
    print("| --- | --- | --- | --- | --- | --- |")
    with Browser() as browser, tempfile.TemporaryDirectory() as folder:
        browser.send(
            "Emulation.setDeviceMetricsOverride", width=1200, height=800, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip
        for n in SIZES:
            explorer = evaluation(n, texts=True, depth=HITS).compare("old", "new").explore()
            file = explorer.write(Path(folder) / f"{n}.html")
            paints = []
            for _ in range(BEST_OF):
                browser.send("Page.navigate", url="about:blank")
                browser.send("Page.navigate", url=file.as_uri())
                paints.append(browser.run(READY))
            browser.send("Performance.enable", timeDomain="threadTicks")
            before = busy(browser)
            took = browser.run(PRESSED)
            worked = (busy(browser) - before) * 1000 / KEYS
            size = file.stat().st_size / 1e6
            print(
                f"| {n:,} | {size:.2f} MB | {min(paints):.0f} ms | {median(took):.0f} ms"
                f" | {max(took):.0f} ms | {worked:.0f} ms |"
            )


if __name__ == "__main__":
    main()
