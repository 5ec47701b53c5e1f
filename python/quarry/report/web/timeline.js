// SPDX-License-Identifier: Apache-2.0
// Charts over time: the timeline with its failures, and fragmentation.
"use strict";

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
    const show = document.createElement("button");
    show.textContent = each.event.toLocaleString("en");
    show.title = "show what was in use";
    show.addEventListener("click", () => {
      chooseMoment(each.event);
      byId("moment-section").scrollIntoView({ behavior: "smooth" });
    });
    row.insertCell().append(show);
    for (const text of [sizeText(each.size) + (each.call_site ? `\nat ${each.call_site}` : ""), each.free ? sizeText(each.free) : "",
      `${sizeText(each.in_use)} in ${each.allocations.toLocaleString("en")} allocations`, most.join(each.is_by_site ? "\n" : ", ")]) row.insertCell().textContent = text;
  }
}

/// Draws curves {label, color, x, low, high} into a chart over time, or removes its section if there are none. Values are divided by `scale`.
async function drawLines(name, curves, axis, scale, template) {
  const element = byId(name);
  if (!curves.length) {
    byId(`${name}-section`)?.remove();
    return;
  }
  const traces = curves.map((curve) => ({ name: curve.label, x: [], y: [], type: "scatter", mode: "lines", showlegend: true,
    line: { color: curve.color, width: 1.4, shape: "hv" }, hovertemplate: template }));
  await Plotly.newPlot(element, traces, layoutOf(timeAxis(), axis), config);
  link(element, (range) => {
    const parts = curves.map((curve) => visiblePart(curve, range, plotWidth(element), scale));
    return Plotly.restyle(element, { x: parts.map((part) => part.x), y: parts.map((part) => part.y) });
  });
}
function recordedCurve(curve) {
  return curve ? [{ label: "as recorded", color: colors.recorded, x: unpack(report.axis.curve_x), low: unpack(curve.low), high: unpack(curve.high) }] : [];
}
/// A curve of each replay that counts its free chunks, or of all: `valueOf(free, reserved, largest)` for each sample.
function replayCurves(valueOf, isWanted = () => true) {
  return report.replays.map((replay, index) => ({ replay, index })).filter(({ replay }) => isWanted(replay)).map(({ replay, index }) => {
    const free = unpack(replay.free), reserved = unpack(replay.reserved), largest = unpack(replay.largest);
    const values = free.map((value, i) => valueOf(value, reserved[i], largest[i]));
    return { label: `Quarry (${replay.label})`, color: colors.replays[index % colors.replays.length], x: unpack(report.axis.replay_x[index]), low: values, high: values };
  });
}
const fragments = (replay) => replay.fragments;

/// Which share of the reserved bytes is in use: as recorded, and in the replays.
async function drawUsedShare() {
  const curves = [...recordedCurve(report.used_share), ...replayCurves((free, reserved) => (reserved > 0 ? 100 * (1 - free / reserved) : 100))];
  await drawLines("used-share", curves, valueAxis("in use ÷ reserved (%)", { range: [0, 104] }), 1, "%{y:.1f} %");
}

async function drawFragmentation() {
  const share = (free, reserved, largest) => (free > 0 ? Math.min(largest / free, 1) * 100 : 100);
  const shares = [...recordedCurve(report.largest_share), ...replayCurves(share, fragments)];
  await drawLines("fragmentation", shares, valueAxis("largest ÷ free (%)", { range: [0, 104] }), 1, "%{y:.1f} %");
  const chunks = [...recordedCurve(report.largest_free), ...replayCurves((free, reserved, largest) => largest, fragments)];
  const unit = unitOf(Math.max(0, ...chunks.map((curve) => maximumOf(curve.high))));
  await drawLines("largest-free", chunks, valueAxis(`largest free chunk (${unit.name})`), unit.bytes, `%{y:.4~g} ${unit.name}`);
}
