// Graphs, tables and plots whose texts the data have already.
function beside(root, fill) {
  const left = html("div"), right = html("aside", {class: "details", tabindex: 0, "aria-live": "polite",
    "aria-label": "the chosen step"});
  root.append(html("div", {class: "split"}, [left, right]));
  fill(left);
  return right;
}

// steps: node, reads, heat, under (a text), facts (pairs of texts).
function plainGraph(root, graph) {
  if (graph.note) root.append(html("p", {class: "soft small"}, graph.note));
  let show = () => {};
  const right = beside(root, (left) => {
    show = graphView(left, {...graph, together: (heats) => Math.max(...heats),
      format: (heat, inside) => (inside.length === 1 ? inside[0].under
        : graph.block_text + (graph.of_worst ? inside.find((step) => step.heat === heat).under : ""))}, pick);
  });
  function pick(number) {
    const step = graph.steps[number];
    show(number);
    right.replaceChildren(html("h2", {}, nameOf(step)), pairs(step.facts));
  }
  pick(0);
}

// columns: title, kind (text, number, ratio, ms); rows: lists of values, null for none.
function plainTable(root, table) {
  const shown = {text: (value) => value, number: (value) => number(value, Number.isInteger(value) ? 0 : 3), ms: time,
    ratio: (value) => number(value, 6)};
  if (table.note) root.append(html("p", {class: "soft small"}, table.note));
  tableView(root, table.title, table.columns.map(([title, kind], c) => [
    title, (row) => row[c] ?? (kind === "text" ? "" : -Infinity),
    (row) => (row[c] === null ? "" : shown[kind](row[c])), kind === "text",
  ]), table.rows);
}

// points: [x, y, text]; line: whether neighbours are joined;
// axes: the names of both ends of x then, else of x and y.
function plotView(root, plot) {
  const WIDTH = widthOf(root), HEIGHT = 340, LEFT = 70;
  const xs = plot.points.map((p) => p[0]), ys = plot.points.map((p) => p[1]);
  const x0 = Math.min(...xs), y0 = Math.min(0, ...ys);
  const wide = Math.max(...xs) - x0 || 1, tall = Math.max(...ys) - y0 || 1;
  const X = (x) => LEFT + ((x - x0) / wide) * (WIDTH - LEFT - 20);
  const Y = (y) => 14 + (1 - (y - y0) / tall) * (HEIGHT - 54);
  const picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": plot.title});
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const y = y0 + share * tall;
    picture.append(svg("path", {class: "edge", "stroke-opacity": 0.3, d: `M${LEFT} ${Y(y)}H${WIDTH - 10}`}),
      svg("text", {class: "soft", x: 4, y: Y(y) + 4}, number(y, tall < 10 ? 2 : 0)));
  }
  if (plot.line) picture.append(svg("path", {class: "edge",
    d: "M" + plot.points.map(([x, y]) => `${X(x).toFixed(1)} ${Y(y).toFixed(1)}`).join("L")}));
  const marks = [...plot.points].sort((a, b) => a[0] - b[0]).map(([x, y, text]) => [svg("circle", {class: "bar heat",
    heat: (1 - (y - y0) / tall).toFixed(3), r: 4, cx: X(x).toFixed(1), cy: Y(y).toFixed(1)}), text]);
  picture.append(...marks.map(([shape]) => shape));
  const under = (x, text, anchor) =>
    picture.append(svg("text", {class: "soft", x, y: HEIGHT - 8, "text-anchor": anchor}, text));
  if (plot.line) {
    under(LEFT, plot.axes[0], "start");
    under(WIDTH - 10, plot.axes[1], "end");
  } else {
    under(LEFT, number(x0, 0), "start");
    under((LEFT + WIDTH) / 2, plot.axes[0], "middle");
    under(WIDTH - 10, number(x0 + wide, 0), "end");
    picture.append(svg("text", {class: "soft", x: LEFT + 6, y: 28}, plot.axes[1]));
  }
  if (plot.note) root.append(html("p", {class: "soft small"}, plot.note));
  root.append(...markedView(picture, marks));
}
