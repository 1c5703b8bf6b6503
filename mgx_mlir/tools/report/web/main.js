// Puts the page together: each section where its data are there. Graphs, pictures and tables wait for the
// first paint, which shows the title, the verdict, the times and the names of the sections.
const page = document.getElementById("page");
const links = document.getElementById("links");
const waiting = [];

function begun(id, title) {
  const body = html("section", {id}, html("h2", {}, title));
  links.append(html("a", {href: `#${id}`}, title));
  page.append(body);
  return body;
}
function section(id, title, show) {
  const body = begun(id, title);
  waiting.push(() => show(body));
}
function finish() {
  if (!page.hasAttribute("aria-busy")) return;
  for (const show of waiting) show();
  page.removeAttribute("aria-busy");
  document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function cards(root) {
  const found = [];
  for (const [kind, times] of Object.entries(DATA.run_ms || {}))
    found.push([`a run, ${kind}`, time(times.p50), `p99 ${time(times.p99 ?? times.p50)}`]);
  if (DATA.kernels_ms) found.unshift(["the kernels of a run", time(DATA.kernels_ms.p50), DATA.times]);
  for (const [kind, ms] of Object.entries(DATA.host_ms || {})) found.push([`host, ${kind}`, time(ms), "beside its HIP calls"]);
  const launches = KERNELS.reduce((sum, kernel) => sum + kernel.launches, 0);
  if (launches) found.push(["launches", String(launches), `${STEPS.length} steps, ${KERNELS.filter((k) => k.kernel >= 0).length} kernels`]);
  for (const [name, bytes] of Object.entries(DATA.memory_bytes || {})) found.push([name, size(bytes), "memory"]);
  root.append(html("div", {class: "cards"}, found.map(([name, value, note]) =>
    html("div", {class: "card"}, [html("span", {class: "small soft"}, name), html("b", {}, value),
      html("span", {class: "small soft"}, note)]))));
  if (DATA.times && DATA.times !== "measured") root.append(html("p", {class: "soft small"},
    (DATA.times === "modelled" ? "Times of kernels come from a model of the chip; those of runs are" : "Times are") +
    " the emulator's own."));
}

function theme() {
  const now = document.documentElement.dataset.theme ||
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

function heading() {
  links.append(html("button", {type: "button", onclick: theme, title: "light or dark"}, "◐ theme"));
  if (!(DATA.verdict || []).length) return;
  const box = begun("verdict", "Verdict");
  box.append(...DATA.verdict.map((sentence) => html("p", {}, sentence)));
  box.querySelector("h2").className = "soft";
}

const sum = (values) => values.reduce((total, value) => total + value, 0);

function profile() {
  cards(begun("runs", "Runs"));
  if ((DATA.compared || []).length) section("compared", "Beside the other run", comparedTable);
  if (STEPS.length) {
    section("graph", "Graph", (root) => {
      const right = beside(root, (left) => watchers.push(graphView(left, {
        steps: STEPS.map((step) => ({...step, heat: step.ms})), blocks: DATA.blocks, together: sum,
        format: (ms) => `${time(ms)}   ${number((100 * ms) / TOTAL)} %`, legend: "time",
        title: "The steps of the program as a graph",
      }, choose)));
      right.id = "details";
      detailsView(right);
    });
    section("timeline", "Timeline", timelineView);
  }
  if (KERNELS.length) section("kernels", "Kernels", kernelTable);
  if (DATA.arena && DATA.arena.buffers.length) section("arena", "Memory of the arena", arenaView);
  const worked = KERNELS.some((k) => k.flops > 0 && k.bytes > 0 && k.ms > 0);
  if (DATA.machine && DATA.machine["memory bytes"] && Object.keys(DATA.machine).length > 1 && worked)
    section("roofline", "Roofline", rooflineView);
  if ((DATA.stages || []).length) section("stages", "Compilation", stagesTable);
  if (KERNELS.length && STEPS.length)
    waiting.push(() => choose(Math.max(STEPS.findIndex((step) => step.kernel === KERNELS[0].kernel), 0)));
}

heading();
if (DATA.run_ms) profile();
for (const graph of DATA.graphs || []) section(graph.id, graph.title, (root) => plainGraph(root, graph));
for (const plot of DATA.plots || []) section(plot.id, plot.title, (root) => plotView(root, plot));
for (const table of DATA.tables || []) section(table.id, table.title, (root) => plainTable(root, table));

page.setAttribute("aria-busy", "true");
requestAnimationFrame(() => setTimeout(finish));
addEventListener("beforeprint", finish);
