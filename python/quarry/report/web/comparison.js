// SPDX-License-Identifier: Apache-2.0
// Draws the page of two traces, A and B. `report` is the data of comparison.py.
"use strict";

const letters = ["A", "B"], traceColors = ["#3b6fb6", "#d9822b"], moreColor = "#c62828", lessColor = "#0f7b5f";

async function drawBoth() {
  const element = byId("timeline"), curves = [];
  charts.length = 0;
  visibleRange = report.axis.range.slice();
  Plotly.purge(element);
  report.traces.forEach((trace, number) => {
    const x = unpack(report.axis.curve_x[number]), end = x[x.length - 1];
    for (const [name, values, dash] of [["in use", trace.requested, "solid"], ["reserved, as recorded", trace.recorded, "dot"]]) {
      if (!values) continue;
      curves.push({ label: `${letters[number]}: ${name}`, color: traceColors[number], dash, x, end, low: unpack(values.low), high: unpack(values.high) });
    }
  });
  const unit = unitOf(Math.max(...curves.map((curve) => maximumOf(curve.high))));
  const traces = curves.map((curve) => ({ name: curve.label, x: [], y: [], type: "scatter", mode: "lines", opacity: 0.8,
    line: { color: curve.color, width: 1.3, dash: curve.dash, shape: "hv" },
    hovertemplate: `%{y:.4~g} ${unit.name}` }));
  await Plotly.newPlot(element, traces, layoutOf(timeAxis(), valueAxis(`memory (${unit.name})`)), config);
  link(element, (range) => {
    const parts = curves.map((curve) => visiblePart(curve, range, plotWidth(element), unit.bytes));
    return Plotly.restyle(element, { x: parts.map((part) => part.x), y: parts.map((part) => part.y) });
  });
}

function signedText(bytes) { return bytes > 0 ? `+${sizeText(bytes)}` : bytes < 0 ? `−${sizeText(-bytes)}` : "0"; }
function changeText(before, after) { return before ? `${after >= before ? "+" : "−"}${(Math.abs(after / before - 1) * 100).toFixed(1)} %` : ""; }

class DifferenceTable extends RowTable {
  constructor() {
    super();
    this.signs = { all: 0, more: 1, less: -1 };
    this.sign = 0;
    this.largest = report.rows.reduce((most, row) => Math.max(most, Math.abs(row[1] - row[0])), 1);
    this.onInput("search", () => this.filter());
    for (const name of Object.keys(this.signs)) {
      byId(name).addEventListener("click", () => {
        for (const other of Object.keys(this.signs)) byId(other).classList.toggle("chosen", other === name);
        this.sign = this.signs[name];
        this.filter();
      });
    }
    this.order = { key: "difference", sign: -1 };
    this.filter();
  }
  difference(i) { return report.rows[i][1] - report.rows[i][0]; }
  columns() {
    const bytes = (key, title, index) => ({ key, title, width: 88, text: (i) => sizeText(report.rows[i][index]), value: (i) => report.rows[i][index] });
    const drawBar = (i, cell) => {
      const share = Math.abs(this.difference(i)) / this.largest * 100, color = this.difference(i) > 0 ? "#f6c9c9" : "#bfe3d7";
      cell.style.background = `linear-gradient(to left, ${color} ${share}%, transparent ${share}%)`;
    };
    return [
      { key: "difference", title: "B − A", width: 104, text: (i) => signedText(this.difference(i)), value: (i) => Math.abs(this.difference(i)), style: drawBar },
      bytes("a", "A", 0), bytes("b", "B", 1),
      { key: "site", title: report.title === "size" ? "Size" : "Call site", wide: true, text: (i) => framesOf(i).join(" < "),
        value: (i) => framesOf(i).join(" < "),
        color: (i) => (this.difference(i) > 0 ? moreColor : this.difference(i) < 0 ? lessColor : otherColor) },
    ];
  }
  filter() {
    const isWanted = siteSearch(wordsOf(byId("search").value));
    const kept = report.rows.map((_, i) => i).filter((i) => (!this.sign || Math.sign(this.difference(i)) === this.sign) && isWanted(i));
    const sum = kept.reduce((total, i) => total + this.difference(i), 0);
    const rest = report.row_count > report.rows.length
      ? ` The page has those with the largest differences of ${report.row_count.toLocaleString("en")}.` : "";
    const what = report.title === "size" ? `${kept.length} ranges of sizes` : countText(kept.length, "call site");
    byId("count").textContent = `${what}, ${signedText(sum)} from A to B.${rest}`;
    this.sort(kept, this.order.key, this.order.sign);
  }
  explain(i, panel) {
    if (i === undefined) { panel.textContent = "Nothing passes the filters."; return; }
    const [a, b, totalA, totalB, countA, countB] = report.rows[i], change = changeText(a, b);
    panel.append(listOf([
      ["A, at its peak", exactText(a)], ["B, at its peak", exactText(b)], ["difference", signedText(b - a) + (change ? ` (${change})` : "")],
      ["A, in total", `${sizeText(totalA)} in ${countText(countA, "allocation")}`], ["B, in total", `${sizeText(totalB)} in ${countText(countB, "allocation")}`],
    ]), stackList(framesOf(i)));
  }
}

let table = null;

async function drawComparison() {
  stackTable = report.stacks;
  const [a, b] = report.traces;
  byId("subtitle").textContent = report.traces.map((trace, i) => `${letters[i]}: ${trace.title}, ${countText(trace.events, "event")}`).join("; ");
  addCard("A: peak in use", sizeText(a.peak), a.title);
  addCard("B: peak in use", sizeText(b.peak), b.title);
  addCard("B − A", signedText(b.peak - a.peak), changeText(a.peak, b.peak));
  if (a.recorded && b.recorded) {
    addCard("Reserved, as recorded: B − A", signedText(b.recorded_peak - a.recorded_peak), `${sizeText(a.recorded_peak)}, then ${sizeText(b.recorded_peak)}`);
  }
  byId("footer").textContent = `Made by Quarry ${report.version}.`;
  offerAxes(drawBoth);
  await drawBoth();
  table = new DifferenceTable();
  document.body.dataset.ready = "yes";
}
drawComparison();
