// SPDX-License-Identifier: Apache-2.0
// Draws the report. `report` is the data of page.py.
"use strict";

let blockPicture = null;

/// The charts with the shared horizontal axis.
async function drawOverTime() {
  charts.length = 0;
  visibleRange = report.axis.range.slice();
  if (blockPicture) blockPicture.remove();
  for (const name of ["timeline", "blocks", "used-share", "fragmentation", "largest-free"]) if (byId(name)) Plotly.purge(byId(name));
  await drawTimeline();
  blockPicture = new BlockPicture(byId("blocks"));
  await blockPicture.start();
  await drawUsedShare();
  await drawFragmentation();
  placeCursors();
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
  const share = (value) => (peak ? `${(value / peak * 100).toFixed(1)} % of the peak in use` : "");
  if (peak) addCard("Peak in use", short(rows.get("peak of the requested bytes")), `${rows.get("allocations")} allocations`);
  for (const [name, value] of rows) {
    if (name.endsWith("peak of the reserved bytes") && !name.includes(" (whole trace):")) {
      const label = name.startsWith("recorded") ? "Reserved, as recorded" : `Reserved by ${name.split(":")[0]}`;
      addCard(label, short(value), share(bytes(value)));
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

let table = null, flame = null, blocks = null;  // of the chosen moment

/// What is in use at the peak, until another moment is chosen.
async function drawMoment() {
  const isOld = typeof DecompressionStream === "undefined";
  if (!report.allocations || isOld) {
    for (const name of ["moment-section", "flame-section", "segments-section"]) byId(name).remove();
    if (isOld) byId("subtitle").textContent += ". This browser is too old for the table of what is in use: it lacks DecompressionStream";
    return;
  }
  await loadStacks();
  table = new MomentTable();
  if (stackTable.frames.length) flame = new FlameGraph(table); else byId("flame-section").remove();
  moment.listeners.push(() => table.show(moment.live));
  if (report.segments.count) blocks = new SegmentPicture(table);
  else byId("segments-section").remove();
  await chooseMoment(report.peak.event);
}

async function drawAll() {
  drawTexts();
  drawFailures();
  explainBlocks();
  offerAxes(drawOverTime);
  await drawOverTime();
  await drawMoment();
  await drawGroups();
  await drawSweep();
  document.body.dataset.ready = "yes";
}
drawAll();
