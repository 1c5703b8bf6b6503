"""The report as a browser shows it: by mouse, by keys, in light and dark, at three widths."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.report.profile import page

from ...onnx_models import MODELS
from .browser import CHROMIUM, Browser
from .test_page import DIGITS, HOSTILE, Page, check_closed, hostile_record

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def network(blocks: int) -> dict[str, Any]:
    """A record of a network of equal blocks of four steps, between two others."""
    kernels = [0, *[1, 2, 3, 4] * blocks, 5]
    steps = [{"kernel": kernel, "node": f"node{n}", "ms": 0.001 * (kernel + 1), "bytes": 1000,
              "flops": 5000, "launches": 1, "reads": [n - 1] if n else []}
             for n, kernel in enumerate(kernels)]  # fmt: skip
    rows = [{"kernel": k, "launches": kernels.count(k), "ms": 0.001 * (k + 1) * kernels.count(k),
             "share": 0.1 * k, "bytes": 1000, "flops": 5000, "gb_per_s": 1.0, "gflop_per_s": 5.0,
             "nodes": [s["node"] for s in steps if s["kernel"] == k], "why": f"schedule {k}"}
            for k in sorted(set(kernels))]  # fmt: skip
    return {"model": "net.onnx", "device": "cpu", "runs": 3, "times": "measured",
            "run_ms": {"cpu": {"p50": 1.0, "p99": 2.0}}, "steps": steps, "kernels": rows,
            "machine": {"memory bytes": 1e10, "fma f32": 1e11}}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Any:
    """Shows the page of a record; at the end the console has said nothing and nothing was asked."""

    def show(record: dict[str, Any], *more: Any) -> Browser:
        file = tmp_path / "page.html"
        file.write_text(page(record, *more))
        browser.messages.clear()
        browser.requests.clear()
        browser.open(file)
        return browser

    yield show
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith("file:")] == []


def test_blocks_open_by_keys_and_fold_again(shown: Any) -> None:
    page_ = shown(network(6))
    assert len(page_.texts(".node")) == 8 and "block 2 of 6" in page_.texts(".node")[2]
    page_.js("document.querySelectorAll('.node')[0].focus()")
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page_.key(key)
    assert len(page_.texts(".node")) == 11 and page_.texts("#details h2") == ["node5"]
    page_.key("Escape")
    assert len(page_.texts(".node")) == 8


def test_a_choice_shows_everywhere(shown: Any) -> None:
    page_ = shown(network(2))
    page_.click(".node[data-first='0']")
    assert page_.texts("#details h2") == ["node0"]
    assert page_.js("document.querySelector('#timeline .chosen').dataset.step") == "0"
    assert page_.texts("#kernels tr.chosen td:nth-child(9)") == ["schedule 0"]
    page_.click("#timeline [data-step='9']")
    assert page_.texts("#details h2") == ["node9"]
    page_.click("#kernels tbody tr:nth-child(3)")
    assert page_.texts("#details h2") == ["node2"]


def test_tables_sort_and_search(shown: Any) -> None:
    page_ = shown(network(3))
    names = "#kernels tbody td:first-child"
    assert page_.texts(names) == ["0", "1", "2", "3", "4", "5"]
    page_.click("#kernels th:nth-child(3) button")
    assert page_.texts(names) == ["4", "3", "2", "1", "5", "0"]
    page_.click("#kernels th:nth-child(3) button")
    assert page_.texts(names) == ["0", "1", "5", "2", "3", "4"]
    page_.click("#kernels input")
    for letter in "node5":
        page_.key(letter)
    assert page_.texts(names) == ["1"] and page_.texts("#kernels .small") == ["1 of 6 rows"]


def test_the_timeline_zooms(shown: Any) -> None:
    page_ = shown(network(3))
    count = len(page_.texts("#timeline .bar"))
    assert count == 14
    page_.js("document.querySelector('#timeline svg').focus()")
    for _ in range(4):
        page_.key("+")
    assert 0 < len(page_.texts("#timeline .bar")) < count
    page_.key("0")
    assert len(page_.texts("#timeline .bar")) == count


def test_the_threads_of_a_cpu_are_rows_of_the_timeline(shown: Any) -> None:
    spans = [{"step": n, "start_ms": 0.1 * n, "ms": 0.1} for n in range(5)]
    threads = [{"name": "thread 0", "spans": spans}, {"name": "thread 1", "spans": []}]
    page_ = shown(network(1) | {"threads": threads})
    assert page_.texts("#timeline svg > text:not(.soft)")[-1] == "thread 1"
    assert len(page_.texts("#timeline .bar")) == 5
    page_.click("#timeline [data-step='3']")
    assert page_.texts("#details h2") == ["node3"]


def test_a_comparison_says_what_changed(shown: Any) -> None:
    row = {
        "what": "step",
        "name": "conv",
        "before": 2.0,
        "now": 1.0,
        "ratio": 0.5,
        "changed": "x -> y",
    }
    page_ = shown(network(1), [row])
    assert page_.texts("#compared td") == [
        "step",
        "conv",
        "2.00 ms",
        "1.00 ms",
        "-1.00 ms",
        "0.50",
        "x -> y",
    ]


@pytest.mark.parametrize(
    ("section", "texts", "steps"),
    [("arena", ["node0: 1.0 kB at 1024, steps 0 to 2", "node3: 1.0 kB at 0, steps 3 to 4"],
      ["node0", "node3"]),
     ("roofline", ["node5: 833.3 Mop/s at 0.50 operations a byte",
                   "node0: 5.0 Gop/s at 5.00 operations a byte"], ["node5", "node0"])],
)  # fmt: skip
def test_keys_go_over_the_marks_of_a_picture(
    shown: Any, section: str, texts: list[str], steps: list[str]
) -> None:
    buffers = [{"offset": 0, "bytes": 1024, "first": 3, "last": 4},
               {"offset": 1024, "bytes": 1024, "first": 0, "last": 2}]  # fmt: skip
    record = network(1) | {"arena": {"bytes": 2048, "buffers": buffers}}
    for kernel in record["kernels"]:
        kernel["bytes"] = 10_000 if kernel["kernel"] == 5 else 1000
        kernel["flops"] = 0 if kernel["kernel"] in range(1, 5) else 5000
    page_ = shown(record)
    marks, now = f"#{section} svg [tabindex]", "document.activeElement"
    assert page_.js(f"document.querySelectorAll('{marks}').length") == 2
    page_.js(f"document.querySelector('{marks}[tabindex=\"0\"]').focus()")
    for key, n in (("", 0), ("ArrowRight", 1), ("ArrowDown", 1), ("ArrowLeft", 0), ("End", 1),
                   ("Home", 0)):  # fmt: skip
        if key:
            page_.key(key)
        assert page_.js(f"{now}.getAttribute('aria-label')") == texts[n]
        assert page_.texts(f"#{section} .told") == [texts[n]]
        # One stop of Tab, where the focus is.
        assert page_.texts(f"{marks}[tabindex='0'] title") == [texts[n]]
        around = page_.js(
            f"(() => {{ const [ring, mark] = [document.querySelector('#{section} .ring'), {now}]"
            ".map(e => e.getBBox()); return getComputedStyle(document.querySelector("
            f"'#{section} .ring')).visibility === 'visible' && ring.x < mark.x && ring.y < mark.y "
            "&& ring.x + ring.width > mark.x + mark.width && ring.y + ring.height > mark.y + "
            "mark.height; })()"
        )
        assert around
        page_.key("Enter")
        assert page_.texts("#details h2") == [steps[n]]
    page_.key("Tab")
    assert not page_.js(f"{now}.closest('#{section} svg')")
    assert page_.js(f"document.querySelector('#{section} .ring').getAttribute('visibility')") == (
        "hidden"
    )


def test_texts_of_the_model_stay_texts(shown: Any) -> None:
    page_ = shown(hostile_record())
    assert page_.texts("#details h2") == [HOSTILE]
    assert page_.js("document.querySelectorAll('img').length") == 0


def test_edges_of_a_result_that_all_read_do_not_bend_the_graph(shown: Any) -> None:
    record = network(12)
    for step in record["steps"][2::4]:
        step["reads"] = sorted({*step["reads"], 0})
    page_ = shown(record)
    xs = page_.js("[...document.querySelectorAll('.node rect')].map(r => r.x.baseVal.value + "
                  "r.width.baseVal.value / 2)")  # fmt: skip
    assert max(xs) - min(xs) < 1
    told = page_.js("document.querySelectorAll('.node')[6].getAttribute('aria-label')")
    assert told.endswith("also reads node0")


def test_a_drag_moves_the_graph_and_chooses_nothing(shown: Any) -> None:
    page_ = shown(network(12))
    chosen = page_.texts("#details h2")
    before = page_.js("document.querySelector('#graph svg').getAttribute('viewBox')")
    x, y = page_.js(
        "(() => { const n = document.querySelectorAll('.node')[3]; n.scrollIntoView({block: "
        "'center'}); const b = n.getBoundingClientRect(); return [b.x + b.width / 2, b.y + 10]; "
        "})()"
    )
    for kind, at in (("mousePressed", y), ("mouseMoved", y - 60), ("mouseReleased", y - 60)):
        page_.call("Input.dispatchMouseEvent", type=kind, x=x, y=at, button="left", buttons=1,
                   clickCount=1)  # fmt: skip
    assert page_.js("document.querySelector('#graph svg').getAttribute('viewBox')") != before
    assert page_.texts("#details h2") == chosen


@pytest.mark.parametrize("width", [360, 820, 1600])
def test_the_page_is_as_wide_as_the_window(shown: Any, width: int) -> None:
    page_ = shown(network(8))
    page_.call("Emulation.setDeviceMetricsOverride", width=width, height=800,
               deviceScaleFactor=1, mobile=width < 500)  # fmt: skip
    assert page_.js("document.documentElement.scrollWidth") <= width
    backs = []
    for theme in ("light", "dark"):
        page_.theme(theme)
        backs.append(page_.js("getComputedStyle(document.body).backgroundColor"))
    assert backs == ["rgb(255, 255, 255)", "rgb(20, 24, 28)"]
    page_.call("Emulation.clearDeviceMetricsOverride")


def test_paper_shows_whole_tables_in_light(shown: Any) -> None:
    page_ = shown(network(3))
    page_.js("document.documentElement.dataset.theme = 'dark'")
    page_.call("Emulation.setDeviceMetricsOverride", width=720, height=1000,
               deviceScaleFactor=1, mobile=False)  # fmt: skip
    page_.call("Emulation.setEmulatedMedia", media="print")
    assert page_.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page_.js("document.querySelector('#kernels table').scrollWidth <= innerWidth")
    assert page_.js("document.querySelector('#kernels th button').offsetWidth > 0")
    page_.call("Emulation.setEmulatedMedia", media="")
    page_.call("Emulation.clearDeviceMetricsOverride")


def test_two_thousand_unlike_steps_are_few_boxes(shown: Any) -> None:
    record = network(1)
    step = record["steps"][0]
    record["steps"] = [{**step, "kernel": n, "node": f"n{n}", "reads": [n - 1] if n else []}
                       for n in range(2000)]  # fmt: skip
    page_ = shown(record)
    assert 20 < len(page_.texts(".node")) <= 121
    page_.click(".node")
    assert page_.texts("#details h2") == ["n0"] and len(page_.texts(".node")) <= 400


def test_the_first_paint_waits_for_no_graph(shown: Any, browser: Browser) -> None:
    """At the first frame the verdict and the names of the sections are there, graphs are not."""
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source="""
        const frame = requestAnimationFrame;
        requestAnimationFrame = (act) => frame((at) => {
          window.first ??= [".card", "#links a[href='#roofline']", ".node", "#kernels tr"].map(
            (selector) => document.querySelector(selector) !== null);
          act(at);
        });
    """)["identifier"]  # fmt: skip
    page_ = shown(network(2))
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    assert page_.js("first") == [True, True, False, False]
    assert len(page_.texts(".node")) == 4 and page_.texts("#kernels tr")


def test_paper_waits_for_no_paint(browser: Browser, tmp_path: Path) -> None:
    """A page that is printed before its first frame is whole."""
    file = tmp_path / "page.html"
    file.write_text(page(network(2)))
    script = browser.call("Page.addScriptToEvaluateOnNewDocument",
                          source="requestAnimationFrame = () => {};")["identifier"]  # fmt: skip
    browser.load(file)
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    assert browser.texts(".node") == []
    browser.call("Page.printToPDF")
    assert len(browser.texts(".node")) == 4 and browser.texts("#details h2") == ["node0"]


def test_an_address_with_a_section_shows_it(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page(network(12)))
    browser.open(file, "kernels")
    top = browser.js("document.querySelector('#kernels').getBoundingClientRect().y")
    at_end = browser.js("scrollY + innerHeight >= document.documentElement.scrollHeight - 2")
    assert browser.js("scrollY") > 100 and (abs(top) < 2 or at_end)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"), [("resnet", {}), ("bert", {"layers": 12, "width": 768, "tokens": 64})]
)
def test_whole_networks(shown: Any, name: str, sizes: dict[str, int], tmp_path: Path) -> None:
    """ResNet-50 and BERT-base on the CPU: the page's numbers are those of the record."""
    model, report = tmp_path / "model.onnx", tmp_path / "report.html"
    onnx.save(MODELS[name](**sizes), model)
    words = ["perf", model, "--target", "cpu", "--runs", "1", "--json", "--report", report]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([*map(str, words)]) == 0
    record, text = json.loads(printed.getvalue()), report.read_text()
    check_closed(Page(text))
    assert len(text) < 1_500_000 and len(record["steps"]) > 40
    assert Page(text).data["steps"] == record["steps"]
    shown(record).open(report)


def test_the_report_of_a_model_opens(browser: Browser, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    words = ["perf", DIGITS, "--target", "gfx942", "--runs", "1", "--report", report]
    assert main([*map(str, words)]) == 0
    browser.messages.clear()
    browser.open(report)
    assert len(browser.texts("#verdict p")) == 3 and browser.messages == []
    browser.click("#details details:last-of-type summary")
    found = browser.js(
        "new Promise(done => { const look = () => { const t = document.querySelector("
        "'#details details:last-of-type pre').textContent; t ? done(t) : setTimeout(look, 20); "
        "}; look(); })"
    )
    assert "s_endpgm" in found
