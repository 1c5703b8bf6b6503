// A cell shows two lines of its text, and the rest where one points at it.
const longText = (text) => html("td", {class: text.length > 40 ? "t long" : "t", title: text.length > 40 && text}, html("div", {}, text));

// A table that sorts by its heads and shows the rows that have all words of a search.
// columns: [title, value(row), text or nodes of(row), is text]; a row may belong to a step.
function tableView(root, name, columns, rows, stepOf) {
  let by = -1, down = true, words = [];
  const body = html("tbody"), heads = html("tr");
  const count = html("span", {class: "small soft", "aria-live": "polite"});
  const search = html("input", {type: "search", placeholder: "search", "aria-label": `search ${name}`,
    oninput: () => { words = search.value.toLowerCase().split(/\s+/).filter(Boolean); fill(); }});
  columns.forEach(([title, , , isText], c) => {
    const button = html("button", {type: "button", onclick: () => {
      down = by === c ? !down : !isText;
      by = c;
      fill();
    }}, title);
    heads.append(html("th", {class: isText ? "t" : false, scope: "col"}, button));
  });
  const made = rows.map((row) => {
    const cells = columns.map(([, , text, isText]) => (isText ? longText(text(row)) : html("td", {}, text(row))));
    const line = html("tr", {tabindex: stepOf ? 0 : false}, cells);
    const step = stepOf ? stepOf(row) : -1;
    if (step >= 0) {
      line.addEventListener("click", () => choose(step));
      onKeys(line, {Enter: () => choose(step), " ": () => choose(step),
        ArrowDown: () => line.nextElementSibling?.focus(), ArrowUp: () => line.previousElementSibling?.focus()});
    }
    const said = [...columns.map(([, value]) => String(value(row))), line.textContent];
    return {row, line, step, text: said.join(" ").toLowerCase()};
  });
  function fill() {
    const shown = made.filter((one) => words.every((word) => one.text.includes(word)));
    if (by >= 0) {
      const value = columns[by][1], sign = down ? -1 : 1;
      shown.sort((a, b) => {
        const [x, y] = [value(a.row), value(b.row)];
        return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
      });
    }
    body.replaceChildren(...shown.map((one) => one.line));
    count.textContent = shown.length === rows.length ? `${rows.length} row${rows.length === 1 ? "" : "s"}` : `${shown.length} of ${rows.length} rows`;
    [...heads.children].forEach((head, c) =>
      c === by ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
  }
  if (stepOf) watchers.push((step) => {
    for (const one of made)
      one.line.classList.toggle("chosen", step >= 0 && one.step >= 0 && STEPS[step].kernel === STEPS[one.step].kernel);
  });
  fill();
  root.append(html("div", {class: "tools"}, [search, count]),
    html("div", {class: "scroll"}, html("table", {}, [html("thead", {}, heads), body])));
}

const meter = (share) => {
  const inner = html("i");
  inner.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
  return html("span", {class: "meter", "aria-hidden": "true"}, inner);
};

const few = (names, most) =>
  names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");

// More than memory gives: what a kernel names is in caches, or it reads a part, as a gather does.
function moved(perSecond) {
  const most = (DATA.machine || {})["memory bytes"] || Infinity;
  return perSecond <= most ? rate(perSecond, "B/s") : html("span", {class: "soft",
    title: "more than memory gives: from caches, or parts that are not read"}, rate(perSecond, "B/s"));
}

function kernelTable(root) {
  const first = (kernel) => STEPS.findIndex((step) => step.kernel === kernel.kernel);
  tableView(root, "kernels", [
    ["kernel", (k) => k.kernel, (k) => (k.kernel < 0 ? "copy" : k.name || String(k.kernel)), true],
    ["launches", (k) => k.launches, (k) => String(k.launches)],
    ["time", (k) => k.ms, (k) => time(k.ms)],
    ["share", (k) => k.share, (k) => [meter(k.share), ` ${number(100 * k.share)} %`]],
    ["moves", (k) => k.bytes, (k) => size(k.bytes)],
    ["bytes/s", (k) => k.gb_per_s, (k) => moved(k.gb_per_s * 1e9)],
    ["op/s", (k) => k.gflop_per_s, (k) => (k.flops ? rate(k.gflop_per_s * 1e9, "op/s") : "")],
    ["nodes", (k) => k.nodes.join(", "), (k) => few(k.nodes, 3), true],
    ["schedule", (k) => k.why || "", (k) => k.why || "", true],
  ], KERNELS, first);
}

function comparedTable(root) {
  const rows = DATA.compared;
  const change = (row) => (row.ratio === null ? "" : number(row.ratio, 2));
  tableView(root, "the other run", [
    ["", (r) => r.what, (r) => r.what, true],
    ["name", (r) => r.name, (r) => r.name, true],
    ["before", (r) => r.before, (r) => time(r.before)],
    ["now", (r) => r.now, (r) => time(r.now)],
    ["difference", (r) => r.now - r.before, (r) => `${r.now < r.before ? "-" : "+"}${time(Math.abs(r.now - r.before))}`],
    ["now / before", (r) => r.ratio ?? 0, (r) => html("span", {class:
      r.ratio > 1.02 ? "worse" : r.ratio < 0.98 ? "better" : false}, change(r))],
    ["what changed", (r) => r.changed || "", (r) => r.changed || "", true],
  ], rows);
}

function stagesTable(root) {
  const total = DATA.stages.reduce((sum, stage) => sum + stage.ms, 0) || 1;
  tableView(root, "stages", [
    ["stage", (s) => s.stage, (s) => s.stage, true],
    ["time", (s) => s.ms, (s) => time(s.ms)],
    ["share", (s) => s.ms, (s) => [meter(s.ms / total), ` ${number((100 * s.ms) / total)} %`]],
  ], DATA.stages);
}
