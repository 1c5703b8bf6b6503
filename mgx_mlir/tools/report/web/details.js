// The chosen step: its nodes, kernel, schedule, estimate, registers, portable IR, instructions.
function detailsView(root) {
  const empty = html("p", {class: "soft"}, "Choose a step in the graph, the timeline or the table.");
  root.append(empty);

  // Code is stored compressed: one text of all kernels' code, unpacked when it is first asked for.
  const unpacked = new Map();
  async function code(kernel) {
    if (!unpacked.has(kernel.kernel)) {
      const bytes = Uint8Array.from(atob(kernel.code), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
      unpacked.set(kernel.kernel, JSON.parse(await new Response(stream).text()));
    }
    return unpacked.get(kernel.kernel);
  }
  function folded(title, kernel, key) {
    const text = html("pre", {tabindex: 0});
    return html("details", {ontoggle: async (event) => {
      if (event.target.open && !text.textContent) text.textContent = (await code(kernel))[key];
    }}, [html("summary", {}, title), text]);
  }
  watchers.push((number_) => {
    const step = STEPS[number_];
    if (!step) return;
    const kernel = kernelOf(step), launches = kernel.code_launches || [];
    const others = STEPS.filter((other) => other.kernel === step.kernel).length;
    root.replaceChildren(
      html("h2", {}, nameOf(step)),
      pairs([
        ["step", `${number_} of ${STEPS.length}`],
        ["kernel", step.kernel < 0 ? "a copy" : `${kernel.name || step.kernel}${others > 1 ? `, which ${others} steps share` : ""}`],
        ["ONNX nodes", (kernel.fused || []).join(", ")],
        ["types", kernel.types],
        ["time", `${time(step.ms)}, ${number((100 * step.ms) / TOTAL)} % of all steps`],
        ["moves", `${size(step.bytes)}${step.ms ? `, ${rate((step.bytes / step.ms) * 1e3, "B/s")}` : ""}`],
        ["arithmetic", step.flops ? `${rate(step.flops, "op")}${step.ms ? `, ${rate((step.flops / step.ms) * 1e3, "op/s")}` : ""}` : ""],
        ["schedule", kernel.why],
        ["reads", (step.reads || []).map((s) => nameOf(STEPS[s])).join(", ")],
        ["code", kernel.bytes_of_code ? size(kernel.bytes_of_code) : ""],
      ]));
    for (const launch of launches) {
      const stats = (kernel.stats || {})[launch.function] || {};
      root.append(html("h3", {}, launch.function), pairs([
        [DATA.host_ms ? "work-groups" : "work items", launch.grid.join(" × ")],
        ["threads", DATA.host_ms ? launch.block.join(" × ") : ""],
        ["registers", stats.vgpr === undefined ? "" : `${stats.vgpr} vector${stats.agpr ? ` + ${stats.agpr} accumulation` : ""}, ${stats.sgpr} scalar`],
        ["spilled", stats.vgpr_spills || stats.scratch_bytes ? `${stats.vgpr_spills} registers, ${size(stats.scratch_bytes)}` : ""],
        ["LDS", stats.lds_bytes ? size(stats.lds_bytes) : ""],
        ["occupancy", stats.waves_per_simd ? `${stats.waves_per_simd} waves a SIMD` : ""],
      ]));
    }
    if (kernel.code) {
      if (kernel.has_estimate) root.append(folded("Schedules by their estimates", kernel, "estimate"));
      root.append(folded("Portable IR", kernel, "ir"), folded("Instructions", kernel, "isa"));
    }
    root.scrollTop = 0;
  });
}
