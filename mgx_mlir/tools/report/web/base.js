// The data of the page, elements, numbers, and the step that is chosen.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

function make(space, tag, attributes, children) {
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "heat") node.style.setProperty("--h", String(value));
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value);
  }
  for (const child of [].concat(children ?? [])) node.append(child);
  return node;
}
const html = (tag, attributes, children) => make(null, tag, attributes, children);
const svg = (tag, attributes, children) => make(SVG, tag, attributes, children);
const titled = (text) => svg("title", {}, text);

// A format takes long to make; pages have thousands of numbers.
const formats = new Map();
function number(value, digits = 1) {
  if (!formats.has(digits)) formats.set(digits, new Intl.NumberFormat("en",
    {minimumFractionDigits: digits, maximumFractionDigits: digits}));
  return formats.get(digits).format(value);
}
function time(ms) {
  if (ms >= 1000) return `${number(ms / 1000, 2)} s`;
  if (!ms) return "0 ms";
  return ms >= 1 ? `${number(ms, 2)} ms` : `${number(ms * 1000, ms < 0.01 ? 2 : 1)} µs`;
}
function size(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; bytes >= 1000 && unit < units.length - 1; unit++) bytes /= 1000;
  return unit ? `${number(bytes)} ${units[unit]}` : `${bytes} bytes`;
}
function rate(perSecond, word) {
  const units = ["", "k", "M", "G", "T", "P"];
  let unit = 0;
  for (; perSecond >= 1000 && unit < units.length - 1; unit++) perSecond /= 1000;
  return `${number(perSecond)} ${units[unit]}${word}`;
}
const cut = (text, length) => (text.length > length ? text.slice(0, length - 1) + "…" : text);

const STEPS = DATA.steps || [];
const KERNELS = DATA.kernels || [];
const LONGEST = Math.max(...STEPS.map((step) => step.ms), 1e-12);
const TOTAL = STEPS.reduce((sum, step) => sum + step.ms, 0) || 1e-12;
const kernelOf = (step) => KERNELS.find((kernel) => kernel.kernel === step.kernel) || {};
const nameOf = (step) => step.node || "copy";

// Parts of the page that show the chosen step: functions of its number.
const watchers = [];
let chosen = -1;
function choose(step) {
  chosen = step;
  for (const show of watchers) show(step);
}

// A row of buttons: label, what it does in words, what it does.
function tools(actions) {
  const row = html("div", {class: "tools", role: "toolbar"});
  for (const [label, title, act] of actions)
    row.append(html("button", {type: "button", title, "aria-label": title, onclick: act}, label));
  return row;
}

function pairs(facts) {
  const list = html("dl");
  for (const [name, value] of facts)
    if (value !== undefined && value !== "") list.append(html("dt", {}, name), html("dd", {}, value));
  return list;
}

function onKeys(node, keys) {
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key](event);
  });
}

// A picture whose marks are one stop of Tab: arrows go from mark to mark, Enter does what a click does.
// marks: [shape, its text, what a click does or none], in the order of the arrows. A ring is around the
// mark in focus, and a line under the picture has its text.
function markedView(picture, marks) {
  const acts = marks.some((mark) => mark[2]) ? ", Enter shows the step" : "";
  const told = html("p", {class: "soft small told", "aria-hidden": "true"}, `Arrow keys go from mark to mark${acts}.`);
  const ring = svg("rect", {class: "ring", rx: 4, visibility: "hidden"});
  let at = 0;
  const go = (n) => marks[Math.min(Math.max(n, 0), marks.length - 1)][0].focus();
  const set = (node, values) => Object.entries(values).forEach(([name, value]) => node.setAttribute(name, value));
  marks.forEach(([shape, text, act], n) => {
    set(shape, {tabindex: n ? -1 : 0, role: act ? "button" : "img", "aria-label": text});
    shape.append(titled(text));
    if (act) shape.addEventListener("click", act);
    shape.addEventListener("focus", () => {
      marks[at][0].setAttribute("tabindex", -1);
      at = n;
      shape.setAttribute("tabindex", 0);
      const {x, y, width, height} = shape.getBBox();
      set(ring, {x: x - 3, y: y - 3, width: width + 6, height: height + 6, visibility: "visible"});
      told.textContent = text;
    });
    shape.addEventListener("blur", () => ring.setAttribute("visibility", "hidden"));
  });
  const act = () => marks[at][2]?.();
  onKeys(picture, {
    ArrowRight: () => go(at + 1), ArrowDown: () => go(at + 1), ArrowLeft: () => go(at - 1), ArrowUp: () => go(at - 1),
    Home: () => go(0), End: () => go(marks.length - 1), Enter: act, " ": act,
  });
  picture.append(ring);
  return [html("div", {class: "view"}, picture), told];
}
