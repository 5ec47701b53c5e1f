// SPDX-License-Identifier: Apache-2.0
// Draws the report. `report` is the data of page.py. Charts show what is visible at the resolution of
// the screen: each zoom draws again.
"use strict";

report.axis = report.axes[0];
const units = ["B", "KiB", "MiB", "GiB", "TiB"];
const palette = ["#3b6fb6", "#e08a2e", "#4c9f70", "#c9504b", "#8a6cc0", "#9a7350", "#d583b8", "#7d8b99", "#b8ae3a", "#49b3c2"];
const otherColor = "#cfd6de";
const colors = { failure: "#c62828", requested: "#3b6fb6", granted: "#8fb0da", recorded: "#d9822b", replays: ["#0f7b5f", "#8a3ffc", "#c2255c", "#5c6a79"] };
const font = { family: 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif', size: 12.5, color: "#3a4653" };
const byId = (id) => document.getElementById(id);

function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const types = { f8: Float64Array, u4: Uint32Array, u1: Uint8Array, i1: Int8Array };
  return new types[packed.type](bytes.buffer);
}

function sizeText(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) { bytes /= 1024; ++unit; }
  return `${Number(bytes.toPrecision(unit === 0 ? 4 : 3)).toLocaleString("en")} ${units[unit]}`;
}

/// The unit for an axis up to `maximum`: its name, and its bytes.
function unitOf(maximum) {
  const power = maximum > 0 ? Math.min(Math.floor(Math.log2(maximum / 2) / 10), units.length - 1) : 0;
  return { name: units[Math.max(power, 0)], bytes: 1024 ** Math.max(power, 0) };
}

function positionText(position) {
  if (report.axis.unit !== "s") return `event ${Math.round(position).toLocaleString("en")}`;
  const span = report.axis.range[1] - report.axis.range[0];
  if (span < 0.01) return `${(position * 1e6).toFixed(1)} µs`;
  return span < 10 ? `${(position * 1e3).toFixed(3)} ms` : `${position.toFixed(3)} s`;
}
function durationText(length) {
  if (report.axis.unit !== "s") return `${Math.round(length).toLocaleString("en")} events`;
  if (length < 1e-3) return `${(length * 1e6).toPrecision(3)} µs`;
  return length < 1 ? `${(length * 1e3).toPrecision(3)} ms` : `${length.toPrecision(3)} s`;
}

/// The index of the first value that is not less than `wanted`.
function lowerBound(values, wanted) {
  let first = 0, last = values.length;
  while (first < last) {
    const middle = (first + last) >> 1;
    if (values[middle] < wanted) first = middle + 1; else last = middle;
  }
  return first;
}

/// The part of a curve between two positions, with at most two points for each pixel: the extremes.
function visiblePart(curve, range, pixels, scale) {
  const first = Math.max(lowerBound(curve.x, range[0]) - 1, 0);
  const last = Math.min(lowerBound(curve.x, range[1]) + 1, curve.x.length);
  const x = [], y = [];
  const step = (range[1] - range[0]) / pixels;
  for (let i = first; i < last;) {
    const end = curve.x[i] + step;
    let low = curve.low[i], high = curve.high[i], lowFirst = true, next = i + 1;
    for (; next < last && curve.x[next] < end; ++next) {
      if (curve.low[next] < low) { low = curve.low[next]; lowFirst = false; }
      if (curve.high[next] > high) { high = curve.high[next]; lowFirst = true; }
    }
    const pair = lowFirst ? [low, high] : [high, low];
    x.push(curve.x[i]); y.push(pair[0] / scale);
    if (low !== high) { x.push(curve.x[i] + (curve.x[next - 1] - curve.x[i]) / 2); y.push(pair[1] / scale); }
    i = next;
  }
  if (x.length && last === curve.x.length) { x.push(report.axis.range[1]); y.push(curve.low[last - 1] / scale); }
  return { x, y };
}

function maximumOf(values) {
  let result = 0;
  for (const value of values) if (value > result) result = value;
  return result;
}

function timeAxis() {
  return { range: report.axis.range.slice(), title: { text: report.axis.title, standoff: 6 }, gridcolor: "#eef1f5", zeroline: false,
    unifiedhovertitle: { text: report.axis.unit === "s" ? "%{x:.6~f} s" : "event %{x:,.0f}" }, linecolor: "#b9c2cc", ticks: "outside", ticklen: 4, tickcolor: "#b9c2cc", exponentformat: "none" };
}
function valueAxis(title, more) {
  return Object.assign({ title: { text: title, standoff: 6 }, gridcolor: "#eef1f5", zeroline: false, rangemode: "tozero", fixedrange: true }, more);
}
/// What an empty chart says.
function notes() {
  return report.nothing ? [{ text: report.nothing, x: 0.5, y: 0.5, xref: "paper", yref: "paper", showarrow: false, font: { size: 14, color: "#5c6a79" } }] : [];
}
function layoutOf(xaxis, yaxis, more) {
  return Object.assign({ xaxis, yaxis, font, annotations: notes(), margin: { l: 72, r: 14, t: 30, b: 42 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "rgba(255,255,255,0)", color: "#a9b4bf", activecolor: "#3b6fb6" }, hovermode: "x unified", hoverlabel: { bgcolor: "rgba(255,255,255,0.94)", bordercolor: "#d4dbe3" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12.5 } } }, more);
}
const config = { responsive: true, displaylogo: false, doubleClick: "reset", showTips: false, scrollZoom: false,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

const charts = [];  // {element, draw(range)} of the charts that share the horizontal axis
let visibleRange = report.axis.range.slice();
let isSynchronising = false;

/// Draws a chart again after each zoom, and gives the others the same range.
function link(element, draw) {
  charts.push({ element, draw });
  element.on("plotly_relayout", (change) => {
    if (isSynchronising) return;
    const axis = element.layout.xaxis;
    const range = axis.range.map(Number);
    const isSame = range[0] === visibleRange[0] && range[1] === visibleRange[1];
    visibleRange = range;
    isSynchronising = true;
    const others = isSame ? [] : charts.filter((chart) => chart.element !== element);
    Promise.all(others.map((chart) => Plotly.relayout(chart.element, { "xaxis.range": range.slice() })))
      .then(() => Promise.all((isSame ? charts.filter((chart) => chart.element === element) : charts).map((chart) => chart.draw(range))))
      .finally(() => { isSynchronising = false; document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1); });
  });
  draw(visibleRange);
}

function plotWidth(element) { return Math.max(element._fullLayout._size.w, 100); }

async function drawTimeline() {
  const element = byId("timeline");
  const looks = [
    { color: colors.requested, fill: "tozeroy", fillcolor: "rgba(59,111,182,0.16)", width: 1.2 },
    { color: colors.granted, width: 1, dash: "dot" },
    { color: colors.recorded, width: 1.6 },
  ];
  const lookOf = (label) => looks[label.startsWith("requested") ? 0 : label.startsWith("granted") ? 1 : 2];
  const curves = report.curves.map((curve) => ({ label: curve.label, look: lookOf(curve.label), x: unpack(report.axis.curve_x), low: unpack(curve.low), high: unpack(curve.high) }));
  report.replays.forEach((replay, index) => {
    const reserved = unpack(replay.reserved);
    curves.push({ label: `reserved by Quarry (${replay.label})`, x: unpack(report.axis.replay_x[index]), low: reserved, high: reserved,
      look: { color: colors.replays[index % colors.replays.length], width: 1.8, shape: "hv" } });
  });
  const unit = unitOf(Math.max(...curves.map((curve) => maximumOf(curve.high))));
  const traces = curves.map((curve) => ({ name: curve.label, x: [], y: [], type: "scatter", mode: "lines", fill: curve.look.fill, fillcolor: curve.look.fillcolor,
    line: { color: curve.look.color, width: curve.look.width, dash: curve.look.dash, shape: "hv" },
    hovertemplate: `%{y:.4~g} ${unit.name}` }));
  const shapes = report.axis.phases.map(([position]) => ({ type: "line", x0: position, x1: position, y0: 0, y1: 1, yref: "paper", line: { color: "#aab4bf", width: 1, dash: "dot" } }));
  for (const position of report.axis.failures) shapes.push({ type: "line", x0: position, x1: position, y0: 0, y1: 1, yref: "paper", line: { color: colors.failure, width: 1.2, dash: "dash" } });
  if (report.failures.length) {
    traces.push({ name: "failed requests", x: report.axis.failures, y: report.failures.map((each) => each.in_use / unit.bytes), type: "scatter", mode: "markers",
      marker: { color: colors.failure, symbol: "x", size: 8 }, text: report.failures.map((each) => `${sizeText(each.size)} requested, ${sizeText(each.in_use)} in use`), hovertemplate: "%{text}" });
  }
  const annotations = report.axis.phases.length > 40 ? [] : report.axis.phases.map(([position, name]) => ({ x: position, y: 1, yref: "paper", text: name, showarrow: false,
    xanchor: "left", yanchor: "top", font: { size: 11, color: "#5c6a79" } }));
  await Plotly.newPlot(element, traces, layoutOf(timeAxis(), valueAxis(`memory (${unit.name})`), { shapes, annotations: annotations.concat(notes()) }), config);
  link(element, (range) => {
    const parts = curves.map((curve) => visiblePart(curve, range, plotWidth(element), unit.bytes));
    return Plotly.restyle(element, { x: parts.map((part) => part.x), y: parts.map((part) => part.y) }, curves.map((_, i) => i));
  });
}

function drawFailures() {
  if (!report.failures.length) { byId("failures-section").remove(); return; }
  const table = byId("failures"), head = table.createTHead().insertRow();
  for (const name of ["event", "requested", "free, as recorded", "in use", "most of it"]) {
    const cell = document.createElement("th");
    cell.textContent = name;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const each of report.failures) {
    const most = each.largest.map(([name, size]) => (each.is_by_site ? `${sizeText(size)}: ${name}` : sizeText(size)));
    const row = body.insertRow();
    for (const text of [each.event.toLocaleString("en"), sizeText(each.size) + (each.call_site ? `\nat ${each.call_site}` : ""), each.free ? sizeText(each.free) : "",
      `${sizeText(each.in_use)} in ${each.allocations.toLocaleString("en")} allocations`, most.join(each.is_by_site ? "\n" : ", ")]) row.insertCell().textContent = text;
  }
}

async function drawFragmentation() {
  if (!report.replays.some((replay) => replay.fragments)) {
    byId("fragmentation-section")?.remove();
    return;
  }
  const element = byId("fragmentation");
  const curves = report.replays.map((replay, index) => ({ replay, index })).filter(({ replay }) => replay.fragments).map(({ replay, index }) => {
    const free = unpack(replay.free), largest = unpack(replay.largest);
    const share = free.map((value, i) => (value > 0 ? Math.min(largest[i] / value, 1) * 100 : 100));
    return { label: `Quarry (${replay.label})`, index, x: unpack(report.axis.replay_x[index]), low: share, high: share };
  });
  const traces = curves.map((curve) => ({ name: curve.label, x: [], y: [], type: "scatter", mode: "lines", showlegend: true,
    line: { color: colors.replays[curve.index % colors.replays.length], width: 1.4, shape: "hv" }, hovertemplate: "%{y:.1f} %" }));
  await Plotly.newPlot(element, traces, layoutOf(timeAxis(), valueAxis("largest ÷ free (%)", { range: [0, 104] })), config);
  link(element, (range) => {
    const parts = curves.map((curve) => visiblePart(curve, range, plotWidth(element), 1));
    return Plotly.restyle(element, { x: parts.map((part) => part.x), y: parts.map((part) => part.y) });
  });
}

/// A call site with a line for each frame; a deep stack in running text, which takes less room.
function stackText(name) {
  const frames = name.split(" < ");
  return frames.length > 30 ? name : frames.join("\n< ");
}

function colorOf(group) { return group < 0 ? otherColor : palette[group % palette.length]; }

/// The picture of blocks: a canvas below plotly's axes.
class BlockPicture {
  constructor(element) {
    this.element = element;
    for (const name of ["left", "right"]) this[name] = unpack(report.axis[name]);
    for (const name of ["bottom", "height", "size", "is_freed", "group", "site"]) this[name] = unpack(report.blocks[name]);
    this.offsets = unpack(report.blocks.ranges.offset);
    this.unit = unitOf(report.blocks.top);
    this.canvas = document.createElement("canvas");
    this.marker = document.createElement("canvas");
    if (report.axis.picture) {
      this.others = new Image();
      this.others.src = report.axis.picture;
    }
  }
  async start() {
    const yaxis = valueAxis(`address, gaps left out (${this.unit.name})`, { fixedrange: false, rangemode: "normal", showgrid: false, range: [0, report.blocks.top / this.unit.bytes] });
    const buttons = config.modeBarButtonsToRemove.concat(["toImage"]);
    const invisible = { x: report.axis.range, y: [0, 0], type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
    await Plotly.newPlot(this.element, [invisible], layoutOf(Object.assign(timeAxis(), { showgrid: false }), yaxis, { hovermode: false, margin: { l: 72, r: 14, t: 30, b: 42 } }),
      Object.assign({}, config, { modeBarButtonsToRemove: buttons }));
    if (this.others) await this.others.decode();
    this.element.prepend(this.canvas);
    this.element.append(this.marker);
    this.element.onmousemove = (event) => this.hover(event);
    this.element.onmouseleave = () => this.hide();
    link(this.element, () => this.draw());
    this.observer = new ResizeObserver(() => setTimeout(() => this.draw(), 100));
    this.observer.observe(this.element);
  }
  remove() {
    this.observer.disconnect();
    this.draw = () => {};  // a redraw may be due
    this.canvas.remove();
    this.marker.remove();
  }
  /// Sizes a canvas like the plot's area. Returns the scales from data to pixels of the screen.
  fit(canvas) {
    const area = this.element._fullLayout._size, ratio = window.devicePixelRatio || 1;
    Object.assign(canvas.style, { left: `${area.l}px`, top: `${area.t}px`, width: `${area.w}px`, height: `${area.h}px` });
    canvas.width = Math.round(area.w * ratio);
    canvas.height = Math.round(area.h * ratio);
    const x = this.element.layout.xaxis.range.map(Number), y = this.element.layout.yaxis.range.map((value) => value * this.unit.bytes);
    return { x0: x[0], y1: y[1], perX: canvas.width / (x[1] - x[0]), perY: canvas.height / (y[1] - y[0]) };
  }
  draw() {
    const scale = this.fit(this.canvas), pen = this.canvas.getContext("2d");
    const width = this.canvas.width, height = this.canvas.height;
    if (this.others) {
      const [first, last] = report.axis.range;
      pen.imageSmoothingEnabled = false;
      pen.drawImage(this.others, (first - scale.x0) * scale.perX, (scale.y1 - report.blocks.top) * scale.perY, (last - first) * scale.perX, report.blocks.top * scale.perY);
    }
    let previous = null;
    for (let i = 0; i < this.left.length; ++i) {
      const x = (this.left[i] - scale.x0) * scale.perX, right = (this.right[i] - scale.x0) * scale.perX;
      if (right < 0 || x > width) continue;
      const bottom = (scale.y1 - this.bottom[i]) * scale.perY, y = bottom - this.height[i] * scale.perY;
      if (bottom < 0 || y > height) continue;
      const color = colorOf(this.group[i]);
      if (color !== previous) { pen.fillStyle = color; previous = color; }
      const w = Math.max(right - x, 0.7), h = Math.max(bottom - y, 0.7);
      const gap = w > 6 && h > 6 ? 0.8 : 0;  // a line between large neighbours
      pen.fillRect(x, y, w - gap, h - gap);
    }
    this.hide();
  }
  find(event) {
    const box = this.element.getBoundingClientRect(), layout = this.element._fullLayout;
    const px = event.clientX - box.left - layout._size.l, py = event.clientY - box.top - layout._size.t;
    if (px < 0 || py < 0 || px > layout._size.w || py > layout._size.h) return -1;
    const x = layout.xaxis.p2d(px), y = layout.yaxis.p2d(py) * this.unit.bytes;
    const slack = layout.xaxis.p2d(px + 0.7) - x;  // thin blocks are drawn wider than they are
    let found = -1;
    for (let i = 0; i < this.left.length; ++i) {
      if (this.bottom[i] <= y && y < this.bottom[i] + this.height[i] && this.left[i] <= x && x < Math.max(this.right[i], this.left[i] + slack)) found = i;
    }
    return found;
  }
  addressOf(i) {
    let range = lowerBound(this.offsets, this.bottom[i] + 1) - 1;
    return "0x" + (BigInt("0x" + report.blocks.ranges.start[range]) + BigInt(this.bottom[i] - this.offsets[range])).toString(16);
  }
  hover(event) {
    const i = event.buttons ? -1 : this.find(event), tip = byId("tip");
    if (i < 0) { this.hide(); return; }
    const names = report.blocks.names, site = this.site[i];
    const name = site < names.length ? names[site] : `call site without a name: the page names the ${names.length.toLocaleString("en")} with the most blocks`;
    const rounding = this.height[i] === this.size[i] ? "" : `, ${sizeText(this.height[i])} with rounding`;
    tip.textContent = `${sizeText(this.size[i])} (${this.size[i].toLocaleString("en")} B${rounding})\n` + (name ? `${stackText(name)}\n` : "") + `address ${this.addressOf(i)}\n` +
      `from ${positionText(this.left[i])}, ` + (this.is_freed[i] ? `for ${durationText(this.right[i] - this.left[i])}` : "never freed");
    tip.style.display = "block";
    const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 12);
    const lowest = window.scrollY + document.documentElement.clientHeight - tip.offsetHeight - 8;
    Object.assign(tip.style, { left: `${left}px`, top: `${Math.max(Math.min(event.pageY + 16, lowest), window.scrollY)}px` });
    const scale = this.fit(this.marker), pen = this.marker.getContext("2d");
    pen.strokeStyle = "#10202f";
    pen.lineWidth = 1.6;
    pen.strokeRect((this.left[i] - scale.x0) * scale.perX, (scale.y1 - this.bottom[i] - this.height[i]) * scale.perY,
      Math.max((this.right[i] - this.left[i]) * scale.perX, 1), Math.max(this.height[i] * scale.perY, 1));
  }
  hide() {
    byId("tip").style.display = "none";
    this.marker.width = this.marker.width;  // clears it
  }
}

function explainBlocks() {
  const blocks = report.blocks;
  byId("blocks-note").textContent = `Each rectangle is an allocation: its height is its size, its width is the time until its free. Drag to zoom, double-click to reset.` +
    (blocks.count < blocks.all ? ` The ${blocks.count.toLocaleString("en")} largest of ${blocks.all.toLocaleString("en")} allocations are rectangles; the others are the grey picture behind them.` : "");
  const legend = byId("legend");
  const entries = report.groups.names.map((name, index) => [report.groups.labels[index].join(" "), name, colorOf(index)]);
  if (entries.length > 1) entries.push(["others", "", otherColor]);
  for (const [label, name, color] of entries) {
    const entry = document.createElement("span"), box = document.createElement("i");
    box.style.background = color;
    entry.append(box, label);
    entry.title = stackText(name);
    legend.append(entry);
  }
}

let blockPicture = null;

/// The charts with the shared horizontal axis.
async function drawOverTime() {
  charts.length = 0;
  visibleRange = report.axis.range.slice();
  if (blockPicture) blockPicture.remove();
  for (const name of ["timeline", "blocks", "fragmentation"]) if (byId(name)) Plotly.purge(byId(name));
  await drawTimeline();
  blockPicture = new BlockPicture(byId("blocks"));
  await blockPicture.start();
  await drawFragmentation();
}

/// Buttons that switch between time and the events' numbers, which spread bursts.
function offerAxes() {
  if (report.axes.length < 2) return;
  for (const axis of report.axes) {
    const button = document.createElement("button");
    button.textContent = axis.unit ? "by time" : "by event";
    button.className = axis === report.axis ? "chosen" : "";
    button.addEventListener("click", async () => {
      for (const other of byId("axes").children) other.className = other === button ? "chosen" : "";
      report.axis = axis;
      await drawOverTime();
      document.body.dataset.axis = button.textContent;
    });
    byId("axes").append(button);
  }
}

function escaped(text) { return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;"); }

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
    xaxis2: Object.assign({ domain: [0.53, 1], title: { text: `allocated in total (${totalUnit.name})` } }, grid),
    yaxis: { tickvals: rows, ticktext: names, autorange: "reversed", fixedrange: true, zeroline: false, ticks: "outside", ticklen: 7, tickcolor: "rgba(0,0,0,0)" } }, Object.assign({}, config, { displayModeBar: false }));
}

async function drawSweep() {
  const sweep = report.sweep, element = byId("sweep");
  if (!sweep) { byId("sweep-section").remove(); return; }
  byId("sweep-note").textContent = `Each point is one of ${sweep.count} settings. A setting on the front is beaten by no other one in peak, time and coalesces. ` +
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

function drawTexts() {
  const rows = new Map(report.summary), table = byId("summary");
  for (const [name, value] of report.summary) {
    const row = table.insertRow();
    row.insertCell().textContent = name;
    row.insertCell().textContent = value;
  }
  byId("subtitle").textContent = `${rows.get("events")} events` + (rows.has("duration") ? ` in ${rows.get("duration")}` : "") + (rows.get("format") ? `, ${rows.get("format")} format` : "");
  const short = (text) => (text || "").split(" (")[0];
  const bytes = (text) => Number(((text || "").match(/\(([\d,]+) B\)/) || ["", "0"])[1].replaceAll(",", ""));
  const peak = bytes(rows.get("peak of the requested bytes"));
  const card = (name, value, extra) => {
    const box = document.createElement("div");
    box.className = "card";
    for (const [style, text] of [["name", name], ["value", value], ["extra", extra]]) {
      const line = document.createElement("div");
      line.className = style;
      line.textContent = text;
      box.append(line);
    }
    byId("cards").append(box);
  };
  const share = (value) => (peak ? `${(value / peak * 100).toFixed(1)} % of the peak in use` : "");
  if (peak) card("Peak in use", short(rows.get("peak of the requested bytes")), `${rows.get("allocations")} allocations`);
  for (const [name, value] of rows) {
    if (name.endsWith("peak of the reserved bytes")) {
      const label = name.startsWith("recorded") ? "Reserved, as recorded" : `Reserved by ${name.split(":")[0]}`;
      card(label, short(value), share(bytes(value)));
    }
  }
  if (!report.problems.length) byId("problems-box").remove();
  for (const problem of report.problems) {
    const item = document.createElement("li");
    item.textContent = problem;
    byId("problems").append(item);
  }
  byId("footer").textContent = `Made by Quarry ${report.version}.`;
}

async function drawAll() {
  drawTexts();
  drawFailures();
  explainBlocks();
  offerAxes();
  await drawOverTime();
  await drawGroups();
  await drawSweep();
  document.body.dataset.ready = "yes";
}
drawAll();
