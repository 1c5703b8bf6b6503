// Steps as a graph: blocks that repeat are one box until they are opened.
// graph: steps (node, reads, heat), blocks, format(heat, steps of the box), together (of heats), legend, title.
// onchoose(number) is called for a chosen step; gives the function that shows a chosen one.
function graphView(root, graph, onchoose) {
  const {steps, blocks} = graph;
  const open = new Set();
  const blockOf = new Array(steps.length).fill(-1);
  blocks.forEach((block, b) => {
    for (let s = block.first; s < block.end; s++) blockOf[s] = b;
  });
  // A picture of more boxes takes long to lay out.
  const MOST = 400;
  // A result that more boxes read has one edge.
  const HUB = 4;

  const picture = svg("svg", {role: "group", "aria-label": graph.title});
  const view = html("div", {class: "view"}, picture);
  let box = null, extent = [100, 100], items = [], drawn = new Map(), focused = 0;
  let marked = -1, moved = false, dragged = false, first = 0;

  function shown() {
    const found = [];
    for (let s = 0; s < steps.length; ) {
      const b = blockOf[s];
      if (b >= 0 && !open.has(b)) {
        found.push({block: b, first: s, end: blocks[b].end});
        s = blocks[b].end;
      } else {
        found.push({block: -1, first: s, end: s + 1});
        s++;
      }
    }
    return found;
  }

  function label(item) {
    if (item.block < 0) return nameOf(steps[item.first]);
    const block = blocks[item.block], count = block.end - block.first;
    const first = nameOf(steps[block.first]);
    const place = block.times > 1 ? `block ${block.number} of ${block.times}` : "steps";
    return `${place}: ${count} from ${first}`;
  }
  const heatOf = (item) => graph.together(steps.slice(item.first, item.end).map((step) => step.heat));

  function layers() {
    items = shown();
    const of = new Map();
    items.forEach((item, n) => {
      for (let s = item.first; s < item.end; s++) of.set(s, n);
    });
    const layout = new dagre.graphlib.Graph();
    layout.setGraph({rankdir: "TB", nodesep: 18, ranksep: 26, marginx: 12, marginy: 12});
    layout.setDefaultEdgeLabel(() => ({}));
    items.forEach((item, n) => {
      item.text = cut(label(item), 34);
      item.heat = heatOf(item);
      item.under = graph.format(item.heat, steps.slice(item.first, item.end));
      layout.setNode(n, {width: Math.max(item.text.length, item.under.length) * 6.7 + 22, height: 42});
    });
    const readers = new Map();
    for (let s = 0; s < steps.length; s++)
      for (const source of steps[s].reads)
        if (of.get(source) !== of.get(s)) readers.set(source, (readers.get(source) || new Set()).add(of.get(s)));
    for (const [source, numbers] of readers) {
      // Edges to all who read a mask would bend the picture: the first has one, the others say it.
      const drawnOnes = numbers.size > HUB ? [...numbers].slice(0, 1) : numbers;
      for (const n of drawnOnes) layout.setEdge(of.get(source), n);
      for (const n of numbers)
        if (!layout.hasEdge(of.get(source), n)) (items[n].also ||= []).push(nameOf(steps[source]));
    }
    dagre.layout(layout);
    return layout;
  }

  function draw() {
    // The focus stays at its step.
    const held = picture.contains(document.activeElement), at = items[focused]?.first ?? 0;
    const layout = layers();
    focused = items.findIndex((item) => item.first <= at && at < item.end);
    const {width, height} = layout.graph();
    extent = [width, height];
    first = layout.node(0).x;
    picture.replaceChildren();
    drawn = new Map();
    frames(layout);
    for (const edge of layout.edges()) {
      const points = layout.edge(edge).points.map((p) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`);
      picture.append(svg("path", {class: "edge", d: "M" + points.join("L")}));
    }
    const most = Math.max(...items.map((item) => item.heat), 1e-12);
    items.forEach((item, n) => node(item, n, layout.node(n), most));
    if (!box) fit(true); else look();
    if (held) drawn.get(focused).focus({preventScroll: true});
    mark(marked);
  }

  function frames(layout) {
    for (const b of open) {
      const inside = items.flatMap((item, n) => (blockOf[item.first] === b ? [layout.node(n)] : []));
      const x0 = Math.min(...inside.map((p) => p.x - p.width / 2)) - 7;
      const x1 = Math.max(...inside.map((p) => p.x + p.width / 2)) + 7;
      const y0 = Math.min(...inside.map((p) => p.y - p.height / 2)) - 7;
      const y1 = Math.max(...inside.map((p) => p.y + p.height / 2)) + 7;
      picture.append(svg("rect", {class: "frame", x: x0, y: y0, width: x1 - x0, height: y1 - y0, rx: 8}));
    }
  }

  function node(item, n, place, most) {
    const {x, y, width, height} = place;
    const told = `${label(item)}: ${item.under}${item.also ? `; also reads ${item.also.join(", ")}` : ""}`;
    const drawnNode = svg("g", {
      class: "node", tabindex: n === focused ? 0 : -1, role: "button", "aria-label": told,
      "data-first": item.first, onclick: () => { if (!dragged) act(n); }, onfocus: () => { focused = n; },
    }, [
      titled(told),
      svg("rect", {class: "heat", heat: (item.heat / most).toFixed(3), x: x - width / 2,
                   y: y - height / 2, width, height, rx: item.block < 0 ? 6 : 14}),
      svg("text", {x, y: y - 4, "text-anchor": "middle"}, item.text),
      svg("text", {x, y: y + 13, "text-anchor": "middle"}, item.under),
    ]);
    if (item.also) drawnNode.append(svg("path", {class: "edge", "stroke-dasharray": "2 2",
      d: `M${x - width / 2 - 14} ${y}h14`}));
    if (item.block >= 0) drawnNode.append(svg("text", {x: x + width / 2 - 14, y: y + 5}, "+"));
    drawn.set(n, drawnNode);
    picture.append(drawnNode);
  }

  function act(n) {
    const item = items[n];
    if (item.block < 0) return onchoose(item.first);
    unfold(item.block);
    onchoose(item.first);
  }

  function unfold(b) {
    const size = blocks[b].end - blocks[b].first;
    if (items.length + size > MOST) open.clear();
    open.add(b);
    draw();
    show(items.findIndex((item) => item.first === blocks[b].first));
  }

  function fold() {
    open.clear();
    draw();
    fit(true);
  }

  function look() {
    picture.setAttribute("viewBox", box.map((v) => v.toFixed(2)).join(" "));
  }
  // Shows the width of the graph, or of its begin where texts would be too small to read.
  function fit(readable = false) {
    const {width, height} = view.getBoundingClientRect(), most = readable ? (width || 800) * 1.3 : Infinity;
    const wide = Math.min(Math.max(extent[0], 640), most), ratio = (height || 500) / (width || 800);
    const middle = wide < extent[0] ? first : extent[0] / 2;
    box = [middle - wide / 2, 0, wide, Math.min(wide * ratio, Math.max(extent[1], 100))];
    if (extent[1] <= wide * ratio) box[3] = wide * ratio;
    look();
  }
  function zoom(factor, x = box[0] + box[2] / 2, y = box[1] + box[3] / 2) {
    const wide = Math.min(Math.max(box[2] * factor, 120), Math.max(extent[0], extent[1], 320) * 3);
    factor = wide / box[2];
    box = [x - (x - box[0]) * factor, y - (y - box[1]) * factor, wide, box[3] * factor];
    look();
  }
  // Moves the view so that a box is in it, and gives it the focus where one had it.
  function show(n) {
    const shape = drawn.get(n);
    if (!shape) return;
    focused = n;
    for (const [other, each] of drawn) each.setAttribute("tabindex", other === n ? 0 : -1);
    const own = shape.getBBox();
    if (own.y < box[1] || own.y + own.height > box[1] + box[3]) box[1] = own.y - box[3] / 2;
    if (own.x < box[0] || own.x + own.width > box[0] + box[2]) box[0] = own.x + own.width / 2 - box[2] / 2;
    look();
  }
  function step(by) {
    const next = Math.min(Math.max(focused + by, 0), items.length - 1);
    show(next);
    drawn.get(next).focus({preventScroll: true});
  }

  function mark(number) {
    marked = number;
    for (const [n, shape] of drawn)
      shape.classList.toggle("chosen", items[n].first <= number && number < items[n].end);
  }
  onKeys(picture, {
    ArrowDown: () => step(1), ArrowRight: () => step(1), ArrowUp: () => step(-1),
    ArrowLeft: () => step(-1), Home: () => step(-items.length), End: () => step(items.length),
    Enter: () => act(focused), " ": () => act(focused), Escape: fold, "+": () => zoom(0.8),
    "=": () => zoom(0.8), "-": () => zoom(1.25), 0: () => fit(),
  });
  view.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const own = view.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, box[0] + ((event.clientX - own.left) / own.width) * box[2],
         box[1] + ((event.clientY - own.top) / own.height) * box[3]);
  }, {passive: false});
  let held = null;
  picture.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY, ...box];
    dragged = false;
  });
  window.addEventListener("pointerup", () => { held = null; });
  picture.addEventListener("pointermove", (event) => {
    if (!held) return;
    if (Math.hypot(event.clientX - held[0], event.clientY - held[1]) > 4) dragged = true;
    if (!dragged) return;
    const own = view.getBoundingClientRect(), scale = box[2] / own.width;
    box[0] = held[2] - (event.clientX - held[0]) * scale;
    box[1] = held[3] - (event.clientY - held[1]) * scale;
    look();
  });

  const buttons = tools([
    ["+", "zoom in", () => zoom(0.8)], ["−", "zoom out", () => zoom(1.25)],
    ["fit", "show the width of the graph", () => fit()], ["fold", "fold all blocks", fold],
  ]);
  buttons.append(html("span", {class: "small soft"}, [
    `${graph.legend}: least `, html("span", {class: "swatch"}), " most",
  ]));
  root.append(buttons, view);
  draw();
  // The first step that is chosen, by the page itself, leaves the view at the graph's begin.
  requestAnimationFrame(() => { moved = true; });
  return (number) => {
    const n = items.findIndex((item) => item.first <= number && number < item.end);
    if (n >= 0 && moved) show(n);
    mark(number);
  };
}
