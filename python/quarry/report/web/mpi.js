// SPDX-License-Identifier: Apache-2.0
// Draws the page of an MPI program. `report` is the data of mpi_report/page.py.
"use strict";

const kindColors = ["#dfe6ee", "#4c9f70", "#d9822b", "#c9504b", "#8a6cc0", "#3b6fb6"];

/// An axis of ranks from the top, whose ticks are whole numbers.
function rankAxis(title, more) {
  const step = Math.ceil(report.ranks / 16);
  return { title: { text: title, standoff: 8 }, range: [report.ranks - 0.5, -0.5], tickformat: "d", tick0: 0, dtick: step, zeroline: false, gridcolor: "#eef1f5", ...more };
}

/// Bars of one kind as a trace of Plotly.
function barsOf(kind, bars) {
  const x = [], base = [], y = [], text = [];
  for (let i = 0; i < bars.rank.length; ++i) {
    if (bars.kind[i] !== kind) continue;
    base.push(bars.begin[i]);
    x.push(bars.end[i] - bars.begin[i]);
    y.push(bars.rank[i]);
    text.push(bars.texts[i]);
  }
  return { name: report.kinds[kind], type: "bar", orientation: "h", x, base, y, width: 0.8, hovertext: text,
    hovertemplate: "rank %{y}: %{hovertext}<extra></extra>", marker: { color: kindColors[kind], line: { width: 0 } } };
}

/// What a rank does when it is in no call: a bar from its first call to its last, behind the others.
function workOf(bars) {
  const first = new Map(), last = new Map();
  for (let i = 0; i < bars.rank.length; ++i) {
    const rank = bars.rank[i];
    first.set(rank, Math.min(first.get(rank) ?? Infinity, bars.begin[i]));
    last.set(rank, Math.max(last.get(rank) ?? 0, bars.end[i]));
  }
  const y = [...first.keys()];
  return { name: report.kinds[0], type: "bar", orientation: "h", y, base: y.map((rank) => first.get(rank)),
    x: y.map((rank) => last.get(rank) - first.get(rank)), width: 0.8, hoverinfo: "skip", marker: { color: kindColors[0] } };
}

function drawBars(element) {
  const bars = { texts: report.bars.texts };
  for (const name of ["rank", "begin", "end", "kind"]) bars[name] = unpack(report.bars[name]);
  const traces = [workOf(bars)];
  for (let kind = 1; kind < report.kinds.length; ++kind) {
    const trace = barsOf(kind, bars);
    if (trace.x.length) traces.push(trace);
  }
  byId("ranks-note").textContent = "Each bar is a call. Drag to zoom, double-click to reset.";
  const layout = layoutOf({ title: { text: "time (s)" }, range: report.axis.range.slice() }, rankAxis("rank"));
  return Plotly.newPlot(element, traces, { ...layout, barmode: "overlay", hovermode: "closest" }, config);
}

function rowsOf(values, columns) {
  const rows = [];
  for (let i = 0; i < values.length; i += columns) rows.push(Array.from(values.subarray(i, i + columns)));
  return rows;
}

function ranksText(bin, perBin) {
  const first = bin * perBin, last = Math.min(first + perBin, report.ranks) - 1;
  return first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
}

function drawBins(element) {
  const bins = report.bins, seconds = report.axis.range[1] / bins.columns, count = report.kinds.length;
  const main = rowsOf(unpack(bins.main), bins.columns), share = rowsOf(unpack(bins.share), bins.columns), waiting = rowsOf(unpack(bins.waiting), bins.columns);
  const text = main.map((row, i) => row.map((kind, k) => kind < 0 ? "" :
    `${ranksText(i, bins.ranks_per_bin)}: ${share[i][k]} % ${report.kinds[kind]}, ${waiting[i][k]} % in waits and collective operations`));
  const scale = [];
  kindColors.forEach((color, kind) => scale.push([kind / count, color], [(kind + 1) / count, color]));
  byId("ranks-note").textContent = "The colour is what most time of the ranks went to.";
  const trace = { type: "heatmap", z: main.map((row) => row.map((kind) => kind < 0 ? null : kind)), x0: seconds / 2, dx: seconds,
    y0: (bins.ranks_per_bin - 1) / 2, dy: bins.ranks_per_bin, zmin: -0.5, zmax: count - 0.5, colorscale: scale, text, hovertemplate: "%{text}<extra></extra>",
    colorbar: { tickvals: report.kinds.map((_, kind) => kind), ticktext: report.kinds } };
  const layout = layoutOf({ title: { text: "time (s)" } }, rankAxis("rank"));
  return Plotly.newPlot(element, [trace], { ...layout, hovermode: "closest" }, config);
}

function drawMatrix(name) {
  const { size, ranks_per_bin: perBin } = report.matrix, values = unpack(report.matrix[name]);
  const exact = rowsOf(values, size);
  const isSpread = Math.max(...exact.map((row) => Math.max(...row))) > 100;
  const shown = exact.map((row) => row.map((value) => value === 0 ? null : isSpread ? Math.log10(value) : value));
  const text = exact.map((row, i) => row.map((value, k) =>
    `${ranksText(i, perBin)} to ${ranksText(k, perBin)}: ${name === "bytes" ? sizeText(value) : `${value.toLocaleString("en")} messages`}`));
  byId("matrix-note").textContent = `From the rank of the row to the rank of the column${perBin > 1 ? `; ${perBin} ranks a cell` : ""}${isSpread ? "; colours are logarithmic" : ""}.`;
  const trace = { type: "heatmap", z: shown, x0: (perBin - 1) / 2, dx: perBin, y0: (perBin - 1) / 2, dy: perBin, text, hovertemplate: "%{text}<extra></extra>", showscale: false, zmin: 0,
    colorscale: [[0, "#e6eef8"], [0.5, "#6f9bd1"], [1, "#163f75"]], xgap: size <= 64 ? 1 : 0, ygap: size <= 64 ? 1 : 0 };
  const layout = layoutOf(rankAxis("target"), rankAxis("source", { scaleanchor: "x", constrain: "domain" }));
  Object.assign(layout.xaxis, { constrain: "domain", range: [-0.5, report.ranks - 0.5] });
  return Plotly.react(byId("matrix"), [trace], { ...layout, hovermode: "closest" }, config);
}

function fillTable(name, titles, rows, otherwise) {
  const table = byId(name);
  const add = (parent, kind, text) => { const made = document.createElement(kind); made.textContent = text; parent.append(made); return made; };
  if (!rows.length) return void (table.outerHTML = `<p class="note">${otherwise}</p>`);
  const head = add(table, "tr", "");
  for (const title of titles) add(head, "th", title);
  for (const row of rows) {
    const line = add(table, "tr", "");
    for (const cell of row) add(line, "td", cell);
  }
}

for (const [name, value, extra] of report.facts) addCard(name, value, extra);
fillTable("culprits", ["Rank", "others lost", "of all lost time", "waits", "most by a late call of"], report.tables.culprits, "No rank waited for another one.");
if (report.tables.more_culprits) byId("more-culprits").textContent = `And ${report.tables.more_culprits.toLocaleString("en")} ranks more.`;
fillTable("calls", ["Call", "calls", "time", "lost", "of all ranks' time", "most for"], report.tables.calls, "The trace has no calls.");
for (const text of report.notes) {
  const note = document.createElement("p");
  note.className = "note";
  note.textContent = text;
  byId("notes").append(note);
}
byId("footer").textContent = `Quarry ${report.version}`;
async function drawAll() {
  await (report.bars ? drawBars : drawBins)(byId("ranks"));
  await drawMatrix("bytes");
  document.body.dataset.ready = "yes";
}
for (const [button, name] of [["by-bytes", "bytes"], ["by-messages", "messages"]]) {
  byId(button).addEventListener("click", () => {
    for (const other of ["by-bytes", "by-messages"]) byId(other).classList.toggle("chosen", other === button);
    drawMatrix(name);
  });
}
drawAll();
