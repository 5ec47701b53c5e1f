// SPDX-License-Identifier: Apache-2.0
// What all charts have in common: looks, axes, and the link between those over time. A zoom draws a chart again at the resolution of the screen.
"use strict";

const palette = ["#3b6fb6", "#e08a2e", "#4c9f70", "#c9504b", "#8a6cc0", "#9a7350", "#d583b8", "#7d8b99", "#b8ae3a", "#49b3c2"];
const otherColor = "#cfd6de";
const colors = { failure: "#c62828", requested: "#3b6fb6", granted: "#8fb0da", recorded: "#d9822b", replays: ["#0f7b5f", "#8a3ffc", "#c2255c", "#5c6a79"] };
const font = { family: 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif', size: 12.5, color: "#3a4653" };

/// The part of a curve between two positions, with at most two points for each pixel: the extremes. Its last value lasts to `end`, or to the axis's end.
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
  if (x.length && last === curve.x.length) { x.push(curve.end ?? report.axis.range[1]); y.push(curve.low[last - 1] / scale); }
  return { x, y };
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
const hooks = { linked: [], drawn: [] };  // functions called with a linked chart, and after each zoom

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
      .then(() => hooks.drawn.forEach((hook) => hook()))
      .finally(() => { isSynchronising = false; document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1); });
  });
  hooks.linked.forEach((hook) => hook(element));
  return draw(visibleRange);
}

function plotWidth(element) { return Math.max(element._fullLayout._size.w, 100); }

function colorOf(group) { return group < 0 ? otherColor : palette[group % palette.length]; }

/// Buttons that switch between time and the events' numbers, which spread bursts.
function offerAxes(draw) {
  if (report.axes.length < 2) return;
  for (const axis of report.axes) {
    const button = document.createElement("button");
    button.textContent = axis.unit ? "by time" : "by event";
    button.className = axis === report.axis ? "chosen" : "";
    button.addEventListener("click", async () => {
      for (const other of byId("axes").children) other.className = other === button ? "chosen" : "";
      report.axis = axis;
      await draw();
      document.body.dataset.axis = button.textContent;
    });
    byId("axes").append(button);
  }
}

/// A figure at the top of the page.
function addCard(name, value, extra) {
  const box = document.createElement("div");
  box.className = "card";
  for (const [style, text] of [["name", name], ["value", value], ["extra", extra]]) {
    const line = document.createElement("div");
    line.className = style;
    line.textContent = text;
    box.append(line);
  }
  byId("cards").append(box);
}
