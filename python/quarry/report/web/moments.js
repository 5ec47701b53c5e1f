// SPDX-License-Identifier: Apache-2.0
// The moments of a trace: which allocations are in use after an event. moments.py writes the index.
"use strict";

const column = { start: 0, length: 1, time: 2, size: 3, granted: 4, address: 5, site: 6, stream: 7, pool: 8 };
const columnCount = 9;
const keptBins = 64;  // decoded ones, of each index

function bytesOf(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/// The data of an element of the page that `stored` of page.py wrote.
async function inflate(element) {
  const stream = new Blob([bytesOf(element.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/// Allocations in the order of their starts. A column has the lowest bytes of all its values first.
class Bin {
  constructor(bytes) {
    const view = new DataView(bytes.buffer);
    this.bytes = bytes;
    this.count = view.getUint32(0, true);
    this.first = [view.getFloat64(16, true), view.getFloat64(24, true)];  // start and time of row 0
    this.planes = bytes.subarray(4, 4 + columnCount);
    this.offsets = [];
    let offset = 32;
    for (let i = 0; i < columnCount; ++i) {
      this.offsets.push(offset);
      offset += this.planes[i] * this.count;
    }
    this.starts = this.sums(column.start, this.first[0]);
  }
  value(index, row) {
    return this.part(index, row, 0, 8);
  }
  /// The bytes of a value from byte `first` to byte `last`.
  part(index, row, first, last) {
    let result = 0;
    for (let plane = Math.min(this.planes[index], last) - 1; plane >= first; --plane) {
      result = result * 256 + this.bytes[this.offsets[index] + plane * this.count + row];
    }
    return result;
  }
  /// The values of a column of differences.
  sums(index, first) {
    const result = new Float64Array(this.count);
    let sum = first;
    for (let row = 0; row < this.count; ++row) result[row] = sum += this.value(index, row);
    return result;
  }
  get times() { return this.knownTimes ??= this.sums(column.time, this.first[1]); }
  /// The rows in use after an event, and the row that it ends; -1 if there is none.
  rowsAt(event) {
    const rows = [], last = lowerBound(this.starts, event + 1);
    let ended = -1;
    for (let row = 0; row < last; ++row) {
      const end = this.starts[row] + this.value(column.length, row);
      if (end > event) rows.push(row); else if (end === event) ended = row;
    }
    return { rows, ended };
  }
}

/// Loads the bins that an event needs: one of each width.
class MomentIndex {
  constructor(name) {
    this.name = name;
    this.facts = report[name];
    this.bins = new Map();
  }
  bin(level, number) {
    const key = `${this.name}-${level}-${number}`;
    let bin = this.bins.get(key);
    this.bins.delete(key);
    if (bin === undefined) {
      const element = byId(key);
      bin = element ? inflate(element).then((bytes) => new Bin(bytes)) : null;
    }
    this.bins.set(key, bin);  // the last used one is the last
    if (this.bins.size > keptBins) this.bins.delete(this.bins.keys().next().value);
    return bin;
  }
  /// The bins that have the allocations in use after an event.
  async binsAt(event) {
    const { first, leaf, fanout, levels } = this.facts, wanted = [];
    for (let level = 0; level < levels; ++level) wanted.push(this.bin(level, Math.floor((event - first) / (leaf * fanout ** level))));
    return (await Promise.all(wanted)).filter((bin) => bin);
  }
  /// The allocations in use after an event, as columns. `ended` has the size and the call site of the one that the event ends, if it ends one.
  async at(event) {
    const bins = await this.binsAt(event), found = bins.map((bin) => bin.rowsAt(event)), rows = found.map((each) => each.rows);
    // A bin that ends before this event may have the allocation that the event ends.
    const older = (await this.binsAt(event - 1)).filter((bin) => !bins.includes(bin));
    const ends = [...bins.map((bin, i) => [bin, found[i].ended]), ...older.map((bin) => [bin, bin.rowsAt(event).ended])];
    const [bin, row] = ends.find((each) => each[1] >= 0) || [];
    const count = rows.reduce((sum, some) => sum + some.length, 0);
    const live = { count, ended: bin ? { size: bin.value(column.size, row), site: bin.value(column.site, row) } : null };
    for (const name of ["start", "end", "time", "size", "granted", "address"]) live[name] = new Float64Array(count);
    for (const name of ["site", "stream", "pool"]) live[name] = new Uint32Array(count);
    live.high = new Uint32Array(count);  // of the address, which a number may hold rounded
    live.low = new Uint32Array(count);
    let next = 0;
    bins.forEach((bin, number) => {
      for (const row of rows[number]) {
        live.start[next] = bin.starts[row];
        live.end[next] = bin.starts[row] + bin.value(column.length, row);
        live.time[next] = bin.times[row];
        for (const name of ["size", "granted", "address", "site", "stream", "pool"]) live[name][next] = bin.value(column[name], row);
        live.low[next] = bin.part(column.address, row, 0, 4);
        live.high[next] = bin.part(column.address, row, 4, 8);
        ++next;
      }
    });
    return live;
  }
}

function addressText(live, i) {
  const low = live.low[i].toString(16);
  return "0x" + (live.high[i] ? live.high[i].toString(16) + low.padStart(8, "0") : low);
}

const curveEvents = unpack(report.curve_event), curveTimes = unpack(report.curve_time), curveTops = unpack(report.curve_top);
const hasTimes = curveTimes.length > 0 && curveTimes[curveTimes.length - 1] > curveTimes[0];
const lastEvent = Math.max(report.moments.events - 1, 0);

/// Nanoseconds since the first event; between the events that the curves have, an estimate.
function timeOf(event) {
  const i = Math.max(lowerBound(curveEvents, event + 1) - 1, 0);
  if (i + 1 >= curveEvents.length) return curveTimes[i] ?? 0;
  return curveTimes[i] + (curveTimes[i + 1] - curveTimes[i]) * (event - curveEvents[i]) / (curveEvents[i + 1] - curveEvents[i]);
}
function placeOf(event) { return report.axis.unit === "s" ? timeOf(event) / 1e9 : event; }

/// The event at a place of a chart. Where a pixel has several points of the curve, it is that with the most bytes in use.
function eventAt(place, pixel) {
  const x = unpack(report.axis.curve_x);
  const low = lowerBound(x, place - pixel), high = lowerBound(x, place + pixel);
  if (high - low > 1) {
    const top = unpack(report.curves[0].high);
    let best = low;
    for (let i = low; i < high; ++i) if (top[i] > top[best]) best = i;
    return curveTops[best];
  }
  if (report.axis.unit !== "s") return Math.min(Math.max(Math.round(place), report.moments.first), lastEvent);
  const i = Math.max(lowerBound(x, place + pixel / 2) - 1, 0);
  if (i + 1 >= x.length) return lastEvent;
  const share = Math.min(Math.max((place - x[i]) / (x[i + 1] - x[i]), 0), 1);
  return Math.min(curveEvents[i] + Math.floor(share * (curveEvents[i + 1] - curveEvents[i])), curveEvents[i + 1] - 1);
}

/// `live` and `segments` are the allocations and the recorded blocks in use after `event`.
const moment = { event: report.peak.event, time: 0, live: null, segments: null, listeners: [], number: 0 };

/// Chooses the event whose allocations the page lists.
async function chooseMoment(event) {
  if (!Number.isFinite(event)) return;
  moment.event = Math.min(Math.max(Math.round(event), report.moments.first), lastEvent);
  const number = ++moment.number;
  placeCursors();
  const [live, segments] = await Promise.all([allocationIndex.at(moment.event), segmentIndex.at(moment.event)]);
  if (number !== moment.number) return;  // another one was chosen meanwhile
  const begun = live.start.indexOf(moment.event);  // times of allocations are exact
  const time = begun >= 0 ? live.time[begun] : live.time.reduce((latest, each) => Math.max(latest, each), timeOf(moment.event));
  Object.assign(moment, { live, segments, time });
  for (const listener of moment.listeners) listener();
  document.body.dataset.moment = String(moment.event);
}

function momentText() {
  const event = `event ${moment.event.toLocaleString("en")}`;
  return hasTimes ? `${event}, ${secondsText(moment.time)}` : event;
}

const allocationIndex = new MomentIndex("moments"), segmentIndex = new MomentIndex("segments");

/// What the chosen event does.
function eventText() {
  const begun = moment.live.start.indexOf(moment.event), ended = moment.live.ended, failed = report.failures.find((each) => each.event === moment.event);
  const block = moment.segments.start.indexOf(moment.event);
  if (begun >= 0) return `This event allocates ${sizeText(moment.live.size[begun])}.`;
  if (ended) return `This event frees ${sizeText(ended.size)}${framesOf(ended.site).length ? ` of ${framesOf(ended.site)[0]}` : ""}.`;
  if (failed) return `At this event a request of ${sizeText(failed.size)} failed.`;
  if (block >= 0) return `At this event the recorded allocator reserves ${sizeText(moment.segments.size[block])}.`;
  return moment.segments.ended ? `At this event the recorded allocator returns ${sizeText(moment.segments.ended.size)}.` : "";
}

/// Lines at the chosen event in the charts over time.
function placeCursors() {
  for (const { element } of charts) {
    const layout = element._fullLayout;
    if (!layout) continue;
    let line = element.querySelector(".cursor");
    if (!line) {
      line = document.createElement("div");
      line.className = "cursor";
      element.append(line);
    }
    const x = layout.xaxis.d2p(placeOf(moment.event)), area = layout._size;
    line.hidden = !(x >= -1 && x <= area.w + 1) || !report.moments.events;
    Object.assign(line.style, { left: `${area.l + x}px`, top: `${area.t}px`, height: `${area.h}px` });
  }
}

hooks.drawn.push(placeCursors);
hooks.linked.push(chooseByClick);

const doubleClick = 280;  // milliseconds, in which Plotly expects the second click

/// A click into a chart over time chooses the moment; a drag zooms, and a double-click resets the zoom only.
function chooseByClick(element) {
  if (element.dataset.clicks) return;
  element.dataset.clicks = "yes";
  new ResizeObserver(() => setTimeout(placeCursors, 100)).observe(element);
  element.addEventListener("mousedown", (down) => {
    const box = element.getBoundingClientRect(), area = element._fullLayout._size;
    const px = down.clientX - box.left - area.l, py = down.clientY - box.top - area.t;
    clearTimeout(moment.timer);
    if (down.button !== 0 || down.detail > 1 || px < 0 || py < 0 || px > area.w || py > area.h) return;
    window.addEventListener("mouseup", (up) => {
      if (Math.hypot(up.clientX - down.clientX, up.clientY - down.clientY) > 4) return;
      const axis = element._fullLayout.xaxis, event = eventAt(axis.p2d(px), axis.p2d(1) - axis.p2d(0));
      moment.timer = setTimeout(() => chooseMoment(event), doubleClick);
    }, { once: true, capture: true });
  }, true);
}
