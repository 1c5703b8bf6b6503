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

const number = (value, digits = 1) =>
  value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
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
