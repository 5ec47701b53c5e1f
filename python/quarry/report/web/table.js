// SPDX-License-Identifier: Apache-2.0
// The table of the allocations in use at the chosen moment. Only the visible rows are elements of the page.
"use strict";

const rowHeight = 25;
const maxRows = 1_000_000;  // browsers limit the height of an element

/// The frames of call sites, the innermost first; of those that `loadStacks` decoded.
let stackTable = { frames: [], sites: [] };
async function loadStacks() { stackTable = JSON.parse(new TextDecoder().decode(await inflate(byId("stacks")))); }
function framesOf(site) { return (stackTable.sites[site] || []).map((frame) => stackTable.frames[frame]); }
function nameOf(names, number, none) { return names[number] || (number ? `number ${number}` : none); }

const colorOfSite = new Map();  // of the call sites or size classes with the most bytes
report.groups.numbers.forEach((number, index) => colorOfSite.set(number, colorOf(index)));
function colorOfRow(site, size) { return colorOfSite.get(report.groups.title === "size" ? Math.floor(Math.log2(Math.max(size, 1))) : site) || otherColor; }

/// The bytes that a text such as 1.5 MiB or 64k means; NaN if it means none.
function bytesOfText(text) {
  const found = text.trim().match(/^([\d.,]+) *([kmgt]?)i?b?$/i);
  return found ? Number(found[1].replaceAll(",", "")) * 1024 ** " kmgt".indexOf(found[2].toLowerCase() || " ") : NaN;
}

class MomentTable {
  constructor() {
    this.live = null;
    this.rows = [];  // indices of `live`, or groups
    this.bySite = false;
    this.onlySite = -1;
    this.order = { key: "size", sign: -1 };
    this.listeners = [];  // called after each filter with the indices of the allocations that are left
    this.hasStreams = report.streams.length > 1;
    this.hasPools = report.pools.filter((name) => name).length > 1;
    this.body = byId("moment-body");
    this.body.addEventListener("scroll", () => this.drawRows());
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.select(Number(row.dataset.row));
    });
    this.body.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || !this.rows.length) return;
      event.preventDefault();
      this.select(Math.min(Math.max(this.selected + step, 0), this.rows.length - 1));
      const top = this.selected * rowHeight, view = this.body;
      if (top < view.scrollTop) view.scrollTop = top;
      if (top + rowHeight > view.scrollTop + view.clientHeight) view.scrollTop = top + rowHeight - view.clientHeight;
    });
    let timer = 0;
    for (const name of ["search", "least-size"]) byId(name).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => this.filter(), 120); });
    for (const name of ["stream", "pool"]) byId(name).addEventListener("change", () => this.filter());
    byId("moment-peak").addEventListener("click", () => chooseMoment(report.peak.event));
    byId("moment-back").addEventListener("click", () => chooseMoment(moment.event - 1));
    byId("moment-next").addEventListener("click", () => chooseMoment(moment.event + 1));
    byId("moment-event").addEventListener("change", () => chooseMoment(Number(byId("moment-event").value.replaceAll(",", ""))));
    byId("by-row").addEventListener("click", () => this.group(false));
    byId("by-site").addEventListener("click", () => this.group(true));
    byId("clear").addEventListener("click", () => {
      for (const name of ["search", "least-size", "stream", "pool"]) byId(name).value = "";
      this.onlySite = -1;
      this.filter();
    });
    this.fill("stream", this.hasStreams, report.streams, "every stream", "default stream");
    this.fill("pool", this.hasPools, report.pools, "every pool", "no pool");
  }
  fill(id, isShown, names, all, none) {
    const select = byId(id);
    select.hidden = !isShown;
    select.add(new Option(all, ""));
    names.forEach((name, number) => select.add(new Option(nameOf(names, number, none), String(number))));
  }
  columns() {
    const live = this.live;
    const site = { key: "site", title: "Call site", wide: true, text: (i) => framesOf(this.siteOf(i)).join(" < ") || "(unknown)", value: (i) => this.siteOf(i) };
    if (this.bySite) {
      return [{ key: "size", title: "Bytes", text: (i) => sizeText(this.groups[i].size), value: (i) => this.groups[i].size },
        { key: "count", title: "Allocations", text: (i) => this.groups[i].count.toLocaleString("en"), value: (i) => this.groups[i].count }, site];
    }
    const result = [{ key: "size", title: "Size", text: (i) => sizeText(live.size[i]), value: (i) => live.size[i] }, site];
    if (this.hasStreams) result.push({ key: "stream", title: "Stream", name: true, text: (i) => nameOf(report.streams, live.stream[i], "default"), value: (i) => live.stream[i] });
    if (this.hasPools) result.push({ key: "pool", title: "Pool", name: true, text: (i) => nameOf(report.pools, live.pool[i], ""), value: (i) => live.pool[i] });
    result.push({ key: "age", title: "Age", text: (i) => this.ageOf(i), value: (i) => -live.start[i] });
    result.push({ key: "address", title: "Address", text: (i) => "0x" + live.address[i].toString(16), value: (i) => live.address[i] });
    return result;
  }
  siteOf(i) { return this.bySite ? this.groups[i].site : this.live.site[i]; }
  ageOf(i) { return hasTimes ? secondsText(Math.max(timeOf(moment.event) - this.live.time[i], 0)) : `${(moment.event - this.live.start[i]).toLocaleString("en")} events`; }

  show(live) {
    this.live = live;
    this.filter();
  }
  /// Applies the filters, and sorts.
  filter() {
    const live = this.live;
    if (!live) return;
    const words = byId("search").value.toLowerCase().split(/\s+/).filter((word) => word);
    const texts = words.length ? stackTable.frames.map((frame) => frame.toLowerCase()) : [];
    const sites = new Map();
    const isWanted = (site) => {
      if (!sites.has(site)) sites.set(site, words.every((word) => (stackTable.sites[site] || []).some((frame) => texts[frame].includes(word))));
      return sites.get(site);
    };
    const addressText = words.length === 1 && words[0].startsWith("0x") ? words[0] : "";
    const least = bytesOfText(byId("least-size").value), stream = byId("stream").value, pool = byId("pool").value;
    byId("least-size").classList.toggle("wrong", byId("least-size").value.trim() !== "" && Number.isNaN(least));
    const kept = [];
    let bytes = 0, all = 0;
    for (let i = 0; i < live.count; ++i) {
      all += live.size[i];
      if (live.size[i] < least) continue;
      if (stream !== "" && live.stream[i] !== Number(stream)) continue;
      if (pool !== "" && live.pool[i] !== Number(pool)) continue;
      if (this.onlySite >= 0 && live.site[i] !== this.onlySite) continue;
      if (words.length && !(addressText ? ("0x" + live.address[i].toString(16)).includes(addressText) : isWanted(live.site[i]))) continue;
      kept.push(i);
      bytes += live.size[i];
    }
    this.kept = kept;
    const left = kept.length === live.count ? "" : ` of ${live.count.toLocaleString("en")} allocations, ${sizeText(all)}`;
    const omitted = report.moments.least ? ` Allocations smaller than ${sizeText(report.moments.least)} are left out: the trace has ${report.allocations.toLocaleString("en")}.` : "";
    byId("moment-count").textContent = (left ? `${kept.length.toLocaleString("en")} allocations, ${sizeText(bytes)},${left}.` : `${kept.length.toLocaleString("en")} allocations, ${sizeText(bytes)}.`) + omitted;
    byId("clear").hidden = !left;
    byId("moment-title").textContent = momentText();
    byId("moment-event").value = moment.event.toLocaleString("en");
    byId("moment-peak").classList.toggle("chosen", moment.event === report.peak.event);
    this.group(this.bySite);
    for (const listener of this.listeners) listener(live, kept);
  }
  group(bySite) {
    this.bySite = bySite;
    byId("by-row").classList.toggle("chosen", !bySite);
    byId("by-site").classList.toggle("chosen", bySite);
    if (bySite) {
      const groups = new Map();
      for (const i of this.kept) {
        const site = this.live.site[i];
        let group = groups.get(site);
        if (!group) groups.set(site, group = { site, size: 0, count: 0 });
        group.size += this.live.size[i];
        ++group.count;
      }
      this.groups = [...groups.values()];
    }
    this.sort(this.order.key, this.order.sign);
  }
  sort(key, sign) {
    const columns = this.columns(), chosen = columns.find((each) => each.key === key) || columns[0];
    this.order = { key: chosen.key, sign };
    const indices = this.bySite ? this.groups.map((_, i) => i) : this.kept;
    const values = Float64Array.from(indices, (i) => chosen.value(i) * sign);
    const order = Uint32Array.from(indices.keys()).sort((a, b) => values[a] - values[b] || a - b);
    this.rows = Array.from(order.subarray(0, maxRows), (i) => indices[i]);
    this.drawHead(columns);
    this.body.scrollTop = 0;
    this.select(0);
  }
  drawHead(columns) {
    const widths = { size: "88px", count: "96px", stream: "100px", pool: "110px", age: "76px", address: "122px" };
    this.body.parentElement.style.setProperty("--columns", columns.map((each) => (each.wide ? "minmax(180px, 1fr)" : widths[each.key])).join(" "));
    byId("moment-head").replaceChildren(...columns.map((each) => {
      const cell = document.createElement("button");
      cell.textContent = each.title + (each.key === this.order.key ? (this.order.sign < 0 ? " ▾" : " ▴") : "");
      cell.dataset.key = each.key;
      cell.className = each.wide || each.name ? "" : "number";
      cell.addEventListener("click", () => this.sort(each.key, each.key === this.order.key ? -this.order.sign : each.wide || each.name ? 1 : -1));
      return cell;
    }));
  }
  drawRows() {
    const first = Math.max(Math.floor(this.body.scrollTop / rowHeight) - 4, 0);
    const last = Math.min(Math.ceil((this.body.scrollTop + this.body.clientHeight) / rowHeight) + 4, this.rows.length);
    const columns = this.columns(), rows = [];
    for (let number = first; number < last; ++number) {
      const i = this.rows[number], row = document.createElement("div");
      row.className = number === this.selected ? "row chosen" : "row";
      row.dataset.row = String(number);
      row.style.top = `${number * rowHeight}px`;
      for (const each of columns) {
        const cell = document.createElement("span");
        cell.textContent = each.text(i);
        cell.className = each.wide ? "wide" : each.name ? "" : "number";
        if (each.wide || each.name) cell.title = cell.textContent;
        if (each.wide) cell.style.setProperty("--dot", colorOfRow(this.siteOf(i), this.bySite ? 1 : this.live.size[i]));
        row.append(cell);
      }
      rows.push(row);
    }
    const spacer = byId("moment-rows");
    spacer.style.height = `${this.rows.length * rowHeight}px`;
    spacer.replaceChildren(...rows);
  }
  /// Shows all facts of a row, with its whole stack.
  select(number) {
    this.selected = number;
    this.drawRows();
    const panel = byId("moment-stack");
    panel.replaceChildren();
    if (number >= this.rows.length) {
      panel.textContent = this.live.count ? "No allocation passes the filters." : "Nothing is in use at this moment.";
      return;
    }
    const i = this.rows[number], live = this.live, site = this.siteOf(i), frames = framesOf(site);
    const facts = this.bySite ? [["bytes", exactText(this.groups[i].size)], ["allocations", this.groups[i].count.toLocaleString("en")]] : [
      ["size", exactText(live.size[i])],
      ...(live.granted[i] === live.size[i] ? [] : [["granted", exactText(live.granted[i])]]),
      ["address", "0x" + live.address[i].toString(16)],
      ["allocated", `at event ${live.start[i].toLocaleString("en")}` + (hasTimes ? `, ${secondsText(live.time[i])}` : "")],
      ["age", (hasTimes ? `${this.ageOf(i)}, ` : "") + `${(moment.event - live.start[i]).toLocaleString("en")} events`],
      ["freed", live.end[i] > lastEvent ? "not until the end" : `at event ${live.end[i].toLocaleString("en")}`],
      ["stream", nameOf(report.streams, live.stream[i], "default")],
      ["pool", nameOf(report.pools, live.pool[i], "")],
    ].filter(([, text]) => text);
    const list = document.createElement("dl");
    for (const [name, text] of facts) {
      const term = document.createElement("dt"), value = document.createElement("dd");
      term.textContent = name;
      value.textContent = text;
      list.append(term, value);
    }
    const stack = document.createElement("ol");
    for (const frame of frames) {
      const line = document.createElement("li");
      line.textContent = frame;
      stack.append(line);
    }
    const only = document.createElement("button");
    only.textContent = this.onlySite >= 0 ? "every call site" : "only this call site";
    only.addEventListener("click", () => { this.onlySite = this.onlySite >= 0 ? -1 : site; this.filter(); });
    panel.append(list);
    if (frames.length) panel.append(only, stack);
    else panel.append("The trace has no call site for it.");
  }
}
