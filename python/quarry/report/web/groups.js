// SPDX-License-Identifier: Apache-2.0
// Bar charts of call sites or sizes, and the chart of tuned settings.
"use strict";

async function drawGroups() {
  const groups = report.groups, element = byId("groups");
  byId("groups-title").textContent = groups.title === "size" ? "Top sizes" : "Top call sites";
  const names = groups.labels.map((lines) => lines.map(escaped).join("<br>"));
  const rows = groups.names.map((_, i) => i);
  const peakUnit = unitOf(maximumOf(groups.at_peak)), totalUnit = unitOf(maximumOf(groups.total));
  const bars = (values, unit, axis) => ({ type: "bar", orientation: "h", y: rows, x: values.map((value) => value / unit.bytes), xaxis: axis, yaxis: "y", showlegend: false,
    marker: { color: rows.map((i) => colorOf(i)) }, text: values.map(sizeText), textposition: "auto", textfont: { size: 11.5 }, cliponaxis: false,
    customdata: groups.names.map((name, i) => [escaped(name).replaceAll(" &lt; ", "<br>&lt; "), sizeText(values[i]), groups.allocations[i].toLocaleString("en")]),
    hovertemplate: "%{customdata[0]}<br>%{customdata[1]}<br>%{customdata[2]} allocations<extra></extra>" });
  element.style.height = `${90 + 36 * Math.max(rows.length, 2)}px`;
  const grid = { gridcolor: "#eef1f5", zeroline: false, rangemode: "tozero", fixedrange: true };
  await Plotly.newPlot(element, [bars(groups.at_peak, peakUnit, "x"), bars(groups.total, totalUnit, "x2")], {
    font, annotations: notes(), bargap: 0.28, hovermode: "closest", hoverlabel: { bgcolor: "#fff", bordercolor: "#d4dbe3", font: { color: "#1d2733" }, align: "left" }, margin: { l: 330, r: 30, t: 8, b: 44 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: Object.assign({ domain: [0, 0.48], title: { text: `in use at the peak (${peakUnit.name})` } }, grid),
    xaxis2: Object.assign({ domain: [0.53, 1], title: { text: `${report.is_part ? "in use in the range, in total" : "allocated in total"} (${totalUnit.name})` } }, grid),
    yaxis: { tickvals: rows, ticktext: names, autorange: "reversed", fixedrange: true, zeroline: false, ticks: "outside", ticklen: 7, tickcolor: "rgba(0,0,0,0)" } }, Object.assign({}, config, { displayModeBar: false }));
}

async function drawSweep() {
  const sweep = report.sweep, element = byId("sweep");
  if (!sweep) { byId("sweep-section").remove(); return; }
  byId("sweep-note").textContent = `Each point is one of ${sweep.count} settings${report.is_part ? ", for the whole trace" : ""}. A setting on the front is beaten by no other one in peak, time and coalesces. ` +
    `The star has the least cost, if a GiB at the peak costs as much as ${sweep.ms_per_gib.toLocaleString("en")} ms of upstream calls.`;
  const unit = unitOf(maximumOf(sweep.peak));
  const traceOf = (name, chosen, marker) => ({ name, type: "scatter", mode: "markers", marker, x: chosen.map((i) => sweep.peak[i] / unit.bytes), y: chosen.map((i) => sweep.ms[i]),
    customdata: chosen.map((i) => [escaped(sweep.setting[i]), sizeText(sweep.peak[i]), sweep.coalesces[i].toLocaleString("en")]),
    hovertemplate: "<b>%{customdata[0]}</b><br>%{customdata[1]} reserved<br>%{y:.1f} ms upstream<br>%{customdata[2]} coalesces<extra></extra>" });
  const all = sweep.peak.map((_, i) => i), names = [...new Set(sweep.strategy)];
  const traces = names.map((name, index) => traceOf(name, all.filter((i) => sweep.strategy[i] === name && !sweep.dropped[i]), { size: 7, opacity: 0.75, color: palette[(index + 2) % palette.length] }));
  const dropped = all.filter((i) => sweep.dropped[i]);
  if (dropped.length) traces.unshift(traceOf("dropped: at least", dropped, { size: 6, opacity: 0.5, symbol: "x-thin-open", color: "#8a94a0" }));
  const front = all.filter((i) => sweep.front[i]).sort((a, b) => sweep.peak[a] - sweep.peak[b] || sweep.ms[b] - sweep.ms[a]);
  traces.push(traceOf("on the front", front, { size: 13, symbol: "circle-open", color: "#1d2733", line: { width: 1.6 } }));
  if (sweep.best >= 0) traces.push(traceOf("least cost", [sweep.best], { size: 17, symbol: "star", color: "#d9822b", line: { color: "#fff", width: 1 } }));
  const used = sweep.in_use / unit.bytes;
  const shapes = [{ type: "line", x0: used, x1: used, y0: 0, y1: 1, yref: "paper", line: { color: "#aab4bf", width: 1, dash: "dot" } }];
  const annotations = [{ x: used, y: 1, yref: "paper", text: "peak in use", showarrow: false, xanchor: "left", yanchor: "top", font: { size: 11, color: "#5c6a79" } }];
  const axis = { gridcolor: "#eef1f5", zeroline: false, linecolor: "#b9c2cc", ticks: "outside", ticklen: 4, tickcolor: "#b9c2cc" };
  await Plotly.newPlot(element, traces, layoutOf(Object.assign({ title: { text: `peak reserved (${unit.name})`, standoff: 6 } }, axis),
    Object.assign({ title: { text: "time of the upstream (ms)" }, type: "log", dtick: 1 }, axis), { hovermode: "closest", shapes, annotations,
    hoverlabel: { bgcolor: "#fff", bordercolor: "#d4dbe3", font: { color: "#1d2733" }, align: "left" } }), config);
  byId("code").textContent = sweep.code;
}
