// The arena over the steps, and the roofline.
// Pictures are drawn for the width that they have, so that their texts are readable on a phone.
const widthOf = (root) => Math.min(1200, Math.max(root.clientWidth, 320));

function arenaView(root) {
  const arena = DATA.arena;
  const steps = 1 + Math.max(...arena.buffers.map((buffer) => buffer.last));
  const WIDTH = widthOf(root), HEIGHT = 320, LEFT = 70;
  const wide = (WIDTH - LEFT - 10) / steps;
  const picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT + 24}`, role: "group",
    "aria-label": "Buffers of the arena: steps from left to right, addresses from above"});
  const shapes = [], marks = [];
  for (const share of [0, 0.5, 1]) {
    const y = 6 + share * (HEIGHT - 12);
    picture.append(svg("text", {class: "soft", x: 4, y: y + 4}, size(Math.round(arena.bytes * share))));
  }
  const inTime = [...arena.buffers].sort((a, b) => a.first - b.first || a.offset - b.offset);
  inTime.forEach((buffer, n) => {
    const x = LEFT + buffer.first * wide, y = 6 + (buffer.offset / arena.bytes) * (HEIGHT - 12);
    const tall = (buffer.bytes / arena.bytes) * (HEIGHT - 12);
    const own = (buffer.last - buffer.first + 1) * wide;
    const name = nameOf(STEPS[buffer.first] || {});
    const shape = svg("rect", {class: "bar", x: x.toFixed(2), y: y.toFixed(2), rx: 2,
      width: Math.max(own - 0.5, 0.5).toFixed(2), height: Math.max(tall - 0.5, 0.5).toFixed(2),
      fill: `hsl(${(n * 47) % 360} 38% 55%)`});
    shapes.push([buffer, shape]);
    marks.push([shape, `${name}: ${size(buffer.bytes)} at ${buffer.offset}, steps ${buffer.first} to ${buffer.last}`,
      () => choose(buffer.first)]);
    picture.append(shape);
    if (own > 90 && tall > 14)
      picture.append(svg("text", {class: "inside", x: x + 4, y: y + 12, "pointer-events": "none"}, cut(name, Math.floor(own / 7))));
  });
  picture.append(svg("text", {class: "soft", x: LEFT, y: HEIGHT + 14}, "step 0"),
    svg("text", {class: "soft", x: WIDTH - 10, y: HEIGHT + 14, "text-anchor": "end"}, `step ${steps - 1}`));
  watchers.push((step) => {
    for (const [buffer, shape] of shapes)
      shape.classList.toggle("chosen", buffer.first <= step && step <= buffer.last);
  });
  root.append(html("p", {class: "soft small"},
    `${size(arena.bytes)} hold ${arena.buffers.length} buffers of ` +
    `${size(arena.buffers.reduce((sum, buffer) => sum + buffer.bytes, 0))}; a buffer lives from left to right.`),
    ...markedView(picture, marks));
}

function rooflineView(root) {
  const rates = Object.entries(DATA.machine).filter(([name]) => name !== "memory bytes");
  const memory = DATA.machine["memory bytes"], most = Math.max(...rates.map(([, value]) => value));
  const points = KERNELS.filter((k) => k.flops > 0 && k.bytes > 0 && k.ms > 0)
    .map((k) => [k.flops / k.bytes, (k.flops / k.ms) * 1e3, k]);
  const WIDTH = widthOf(root), HEIGHT = 430, log = Math.log10;
  const x0 = -3, x1 = 4.5, y1 = Math.ceil(log(most));
  const y0 = Math.min(y1 - 6, Math.floor(Math.min(...points.map((p) => log(p[1])))));
  const X = (v) => 70 + ((log(v) - x0) / (x1 - x0)) * (WIDTH - 90);
  const Y = (v) => 12 + ((y1 - log(v)) / (y1 - y0)) * (HEIGHT - 50);
  const picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group",
    "aria-label": "Operations a second over operations a byte, logarithmic"});
  for (let n = y0; n <= y1; n++)
    picture.append(svg("text", {class: "soft", x: 4, y: Y(10 ** n) + 4}, rate(10 ** n, "/s")));
  for (let n = -3; n <= 4; n += WIDTH < 600 ? 2 : 1)
    picture.append(svg("text", {class: "soft", x: X(10 ** n), y: HEIGHT - 8}, `${10 ** n}`));
  for (const value of new Set(rates.map(([, v]) => v))) {
    const names = rates.filter(([, v]) => v === value).map(([name]) => name).join(", ");
    const knee = value / memory, end = X(10 ** x1), begin = Math.max(10 ** x0, 10 ** y0 / memory);
    picture.append(
      svg("path", {class: "edge", d: `M${X(begin)} ${Y(memory * begin)}L${X(knee)} ${Y(value)}L${end} ${Y(value)}`}),
      svg("text", {x: end, y: Y(value) - 4, "text-anchor": "end"}, cut(`${names}: ${rate(value, "op/s")}`, Math.floor((WIDTH - 90) / 7))));
  }
  const longest = Math.max(...points.map((p) => p[2].ms)), shapes = [], marks = [];
  points.sort((a, b) => a[0] - b[0]);
  for (const [intensity, speed, kernel] of points) {
    const first = STEPS.findIndex((step) => step.kernel === kernel.kernel);
    const shape = svg("circle", {class: "bar heat", heat: (kernel.ms / longest).toFixed(3), r: 6,
      cx: X(Math.min(Math.max(intensity, 10 ** x0), 10 ** x1)).toFixed(1), cy: Y(speed).toFixed(1),
      stroke: "currentColor", "stroke-width": 0.7});
    shapes.push([kernel.kernel, shape]);
    marks.push([shape, `${kernel.nodes[0]}: ${rate(speed, "op/s")} at ${number(intensity, 2)} operations a byte`,
      () => choose(first)]);
    picture.append(shape);
  }
  watchers.push((step) => {
    for (const [kernel, shape] of shapes)
      shape.classList.toggle("chosen", step >= 0 && STEPS[step].kernel === kernel);
  });
  root.append(html("p", {class: "soft small"},
    `Operations a second over operations a byte, logarithmic; memory gives ${rate(memory, "B/s")}.`),
    ...markedView(picture, marks));
}
