// Rows of spans over time; one window for all rows that share a scale.
function timelineView(root) {
  const rows = timelineRows();
  if (!rows.length) return;
  const ends = {};
  for (const row of rows) ends[row.scale] = Math.max(ends[row.scale] || 0, ...row.spans.map((s) => s[1] + s[2]));
  const scale = rows[rows.length - 1].scale, total = ends[scale];
  let from = 0, to = total;
  const ROW = rows.length > 10 ? 14 : 30, GAP = rows.length > 10 ? 2 : 8, LEFT = 84;
  const picture = svg("svg", {tabindex: 0, role: "img", height: rows.length * (ROW + GAP) + 26,
    "aria-label": "Timeline; arrow keys move, + and - zoom, 0 shows all"});
  const view = html("div", {class: "view"}, picture);

  function draw() {
    const width = Math.max(view.clientWidth, 300), inner = width - LEFT - 10;
    picture.setAttribute("viewBox", `0 0 ${width} ${picture.getAttribute("height")}`);
    picture.replaceChildren();
    rows.forEach((row, place) => {
      const own = row.scale === scale, first = own ? from : 0, last = own ? to : ends[row.scale];
      const y = 6 + place * (ROW + GAP), per = inner / Math.max(last - first, 1e-12);
      picture.append(svg("text", {x: 6, y: y + ROW / 2 + 4}, row.title));
      const longest = Math.max(...row.spans.map((s) => s[2]), 1e-12);
      let right = -1;
      for (const [name, start, ms, step] of row.spans) {
        if (start + ms < first || start > last) continue;
        const x = LEFT + Math.max(start - first, 0) * per;
        const wide = Math.min(start + ms - first, last - first) * per - (x - LEFT);
        // Spans below a pixel are drawn once a pixel.
        if (wide < 0.5 && x + wide < right + 0.5) continue;
        right = x + wide;
        const bar = svg("rect", {class: "bar heat" + (step === chosen ? " chosen" : ""),
          heat: (ms / longest).toFixed(3), x: x.toFixed(2), y, width: Math.max(wide - 0.4, 0.5).toFixed(2),
          height: ROW, "data-step": step ?? false}, titled(`${name}: ${time(ms)}`));
        if (step !== undefined) bar.addEventListener("click", () => choose(step));
        picture.append(bar);
        if (wide > 60) picture.append(svg("text", {x: x + 4, y: y + ROW / 2 + 4, "pointer-events": "none"},
          cut(name, Math.floor(wide / 7))));
      }
    });
    const y = rows.length * (ROW + GAP) + 18;
    picture.append(svg("text", {class: "soft", x: LEFT, y}, time(from)),
      svg("text", {class: "soft", x: width - 10, y, "text-anchor": "end"}, time(to)));
  }
  function zoom(factor, middle = (from + to) / 2) {
    const span = Math.min(Math.max((to - from) * factor, total / 1e5), total);
    from = Math.min(Math.max(middle - (middle - from) * (span / (to - from)), 0), total - span);
    to = from + span;
    draw();
  }
  function move(share) {
    const span = to - from;
    from = Math.min(Math.max(from + span * share, 0), total - span);
    to = from + span;
    draw();
  }
  function all() {
    from = 0;
    to = total;
    draw();
  }
  onKeys(picture, {ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25), "+": () => zoom(0.6),
    "=": () => zoom(0.6), "-": () => zoom(1.7), 0: all});
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const own = view.getBoundingClientRect();
    const share = (event.clientX - own.left - LEFT) / (own.width - LEFT - 10);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, from + Math.min(Math.max(share, 0), 1) * (to - from));
  }, {passive: false});
  let held = null;
  picture.addEventListener("pointerdown", (event) => { held = [event.clientX, from, to]; });
  window.addEventListener("pointerup", () => { held = null; });
  picture.addEventListener("pointermove", (event) => {
    if (!held || Math.abs(event.clientX - held[0]) < 4) return;
    from = held[1];
    to = held[2];
    move((held[0] - event.clientX) / (view.clientWidth - LEFT - 10));
  });
  watchers.push(draw);
  new ResizeObserver(draw).observe(view);
  root.append(tools([
    ["+", "zoom in", () => zoom(0.6)], ["−", "zoom out", () => zoom(1.7)], ["◀", "earlier", () => move(-0.5)],
    ["▶", "later", () => move(0.5)], ["all", "show the whole run", all],
  ]), view);
}

// Kernels stand one after another, as a stream runs them, and on CPUs where the threads ran them; the
// host's calls have their own scale where the kernels' times are modelled.
function timelineRows() {
  const rows = [], measured = DATA.times === "measured";
  const calls = DATA.host_calls || [];
  if (calls.length) rows.push({title: "host", scale: measured ? "one" : "host",
    spans: calls.map((call) => [call.name, call.start_ms, call.ms])});
  let end = measured ? (calls.find((call) => call.name === "launches") || {start_ms: 0}).start_ms : 0;
  const spans = STEPS.map((step, n) => {
    const span = [nameOf(step), end, step.ms, n];
    end += step.ms;
    return span;
  });
  if (spans.length && !DATA.threads) rows.push({title: "kernels", scale: "one", spans});
  for (const thread of DATA.threads || [])
    rows.push({title: thread.name, scale: "threads", spans: thread.spans.map((span) =>
      [nameOf(STEPS[span.step]), span.start_ms, span.ms, span.step])});
  return rows;
}
