// SPDX-License-Identifier: Apache-2.0
// The table of the allocations in use at the chosen moment.
"use strict";

async function loadStacks() { stackTable = JSON.parse(new TextDecoder().decode(await inflate(byId("stacks")))); }
function nameOf(names, number, none) { return names[number] || (number ? `number ${number}` : none); }

const colorOfSite = new Map();  // of the call sites or size classes with the most bytes
report.groups.numbers.forEach((number, index) => colorOfSite.set(number, colorOf(index)));
function colorOfRow(site, size, other = otherColor) {
  return colorOfSite.get(report.groups.title === "size" ? Math.floor(Math.log2(Math.max(size, 1))) : site) || other;
}

/// The pools that the trace names. PyTorch's private pools are named after their device, whose name alone is that of its default pool.
const poolNames = report.pools.map((name) => (name && report.pools.some((other) => other.startsWith(`${name}, pool (`)) ? `${name}, default pool` : name));

/// The same without the device, if the used pools are all of one device.
const deviceOf = (number) => ((poolNames[number] || "").match(/^device \d+/) || [""])[0];
const isOneDevice = report.used_pools.every((number) => deviceOf(number) === deviceOf(report.used_pools[0]));
const shortPoolNames = isOneDevice ? poolNames.map((name) => name.replace(/^device \d+, /, "")) : poolNames;

/// The bytes that a text such as 1.5 MiB or 64k means; NaN if it means none.
function bytesOfText(text) {
  const found = text.trim().match(/^([\d.,]+) *([kmgt]?)i?b?$/i);
  return found ? Number(found[1].replaceAll(",", "")) * 1024 ** " kmgt".indexOf(found[2].toLowerCase() || " ") : NaN;
}

class MomentTable extends RowTable {
  constructor() {
    super();
    this.live = null;  // `rows` are its indices, or those of `groups`
    this.by = "row";  // or "site" or "pool": what a row of the table is
    this.onlySite = -1;
    this.listeners = [];  // called after each filter with the indices of the allocations that are left
    this.hasStreams = report.streams.length > 1;
    this.hasPools = report.used_pools.length > 1;
    for (const name of ["search", "least-size"]) this.onInput(name, () => this.filter());
    for (const name of ["stream", "pool"]) byId(name).addEventListener("change", () => this.filter());
    byId("moment-peak").addEventListener("click", () => chooseMoment(report.peak.event));
    byId("moment-back").addEventListener("click", () => chooseMoment(moment.event - 1));
    byId("moment-next").addEventListener("click", () => chooseMoment(moment.event + 1));
    byId("moment-event").addEventListener("change", () => chooseMoment(Number(byId("moment-event").value.replaceAll(",", ""))));
    for (const by of ["row", "site", "pool"]) byId(`by-${by}`).addEventListener("click", () => this.group(by));
    byId("by-pool").hidden = !this.hasPools;
    byId("clear").addEventListener("click", () => {
      for (const name of ["search", "least-size", "stream", "pool"]) byId(name).value = "";
      this.onlySite = -1;
      this.filter();
    });
    this.fill("stream", this.hasStreams, report.streams, report.streams.map((_, i) => i), "every stream", "default stream");
    this.fill("pool", this.hasPools, poolNames, report.used_pools, "every pool", "no pool");
  }
  fill(id, isShown, names, numbers, all, none) {
    const select = byId(id);
    select.hidden = !isShown;
    select.add(new Option(all, ""));
    for (const number of numbers) select.add(new Option(nameOf(names, number, none), String(number)));
  }
  columns() {
    const live = this.live, groups = this.groups;
    const site = { key: "site", title: "Call site", wide: true, text: (i) => framesOf(this.siteOf(i)).join(" < ") || "(unknown)",
      value: (i) => this.siteOf(i), color: (i) => colorOfRow(this.siteOf(i), this.by === "site" ? 1 : live.size[i]) };
    const bytes = (key, title) => ({ key, title, width: 88, text: (i) => sizeText(groups[i][key]), value: (i) => groups[i][key] });
    const count = { key: "count", title: "Allocations", width: 96, text: (i) => groups[i].count.toLocaleString("en"), value: (i) => groups[i].count };
    if (this.by === "site") return [bytes("size", "Bytes"), count, site];
    if (this.by === "pool") {
      const pool = { key: "pool", title: "Pool", wide: true, text: (i) => nameOf(poolNames, groups[i].pool, "no pool"), value: (i) => nameOf(poolNames, groups[i].pool, "no pool") };
      const recorded = [bytes("reserved", "Reserved"), bytes("unused", "Unused"), bytes("hole", "Largest")];
      return [bytes("size", "In use"), count, ...(report.segments.count ? recorded : []), pool];
    }
    const nameColumn = (key, title, width, names, none) => ({ key, title, width, name: true, text: (i) => nameOf(names, live[key][i], none), value: (i) => live[key][i] });
    const isWide = this.body.clientWidth > 780 || !(this.hasStreams && this.hasPools);
    return [
      { key: "size", title: "Size", width: 88, text: (i) => sizeText(live.size[i]), value: (i) => live.size[i] },
      site,
      this.hasStreams && nameColumn("stream", "Stream", 90, report.streams, "default"),
      this.hasPools && nameColumn("pool", "Pool", isOneDevice ? 100 : 150, shortPoolNames, ""),
      { key: "age", title: "Age", width: 76, text: (i) => this.ageOf(i), value: (i) => -live.start[i] },
      isWide && { key: "address", title: "Address", width: 122, text: (i) => addressText(live, i), value: (i) => live.address[i] },
    ].filter((each) => each);
  }
  siteOf(i) { return this.by === "site" ? this.groups[i].site : this.live.site[i]; }
  ageOf(i) {
    if (hasTimes) return secondsText(moment.time - this.live.time[i]);
    return countText(moment.event - this.live.start[i], "event");
  }

  show(live) {
    this.live = live;
    this.filter();
  }
  /// Applies the filters, and sorts.
  filter() {
    const live = this.live;
    if (!live) return;
    const words = wordsOf(byId("search").value), isWanted = siteSearch(words);
    const wantedAddress = words.length === 1 && words[0].startsWith("0x") ? words[0] : "";
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
      if (words.length && !(wantedAddress ? addressText(live, i).includes(wantedAddress) : isWanted(live.site[i]))) continue;
      kept.push(i);
      bytes += live.size[i];
    }
    this.kept = kept;
    const left = kept.length === live.count ? "" : ` of ${countText(live.count, "allocation")}, ${sizeText(all)}`;
    const omitted = report.moments.least
      ? ` Allocations smaller than ${sizeText(report.moments.least)} are left out: the trace has ${report.allocations.toLocaleString("en")} allocations.` : "";
    byId("moment-count").textContent = `${countText(kept.length, "allocation")}, ${sizeText(bytes)}${left && `,${left}`}.` + omitted;
    byId("clear").hidden = !left;
    byId("moment-change").textContent = eventText();
    byId("moment-title").textContent = momentText();
    byId("moment-event").value = moment.event.toLocaleString("en");
    byId("moment-peak").classList.toggle("chosen", moment.event === report.peak.event);
    this.group(this.by);
    for (const listener of this.listeners) listener(live, kept);
  }
  group(by) {
    this.by = by;
    for (const each of ["row", "site", "pool"]) byId(`by-${each}`).classList.toggle("chosen", each === by);
    if (by !== "row") {
      const groups = new Map(), keys = this.live[by];
      const groupOf = (key) => {
        if (!groups.has(key)) groups.set(key, { [by]: key, size: 0, count: 0, reserved: 0, unused: 0, hole: 0, blocks: 0 });
        return groups.get(key);
      };
      for (const i of this.kept) {
        const group = groupOf(keys[i]);
        group.size += this.live.size[i];
        ++group.count;
      }
      if (by === "pool") this.addBlocks(groupOf);
      this.groups = [...groups.values()];
    }
    this.sort(by === "row" ? this.kept : this.groups.map((_, i) => i), this.order.key, this.order.sign);
  }
  /// Adds the recorded blocks of each pool that the filter of pools keeps. The other filters concern allocations only.
  addBlocks(groupOf) {
    const wanted = byId("pool").value;
    for (const block of joinedBlocks(moment.segments, this.live).blocks) {
      if (wanted !== "" && block.pool !== Number(wanted)) continue;
      const group = groupOf(block.pool), size = block.end - block.address;
      group.reserved += size;
      group.unused += size - block.used;
      group.hole = Math.max(group.hole, block.hole);
      ++group.blocks;
    }
  }
  /// Shows all facts of a row, with its whole stack.
  explain(i, panel) {
    if (i === undefined) {
      panel.textContent = this.live.count ? "No allocation passes the filters." : "Nothing is in use at this moment.";
      return;
    }
    if (this.by === "pool") { this.explainPool(this.groups[i], panel); return; }
    const live = this.live, site = this.siteOf(i), frames = framesOf(site);
    const facts = this.by === "site" ? [["bytes", exactText(this.groups[i].size)], ["allocations", this.groups[i].count.toLocaleString("en")]] : [
      ["size", exactText(live.size[i])],
      ...(live.granted[i] === live.size[i] ? [] : [["granted", exactText(live.granted[i])]]),
      ["address", addressText(live, i)],
      ["allocated", `at event ${live.start[i].toLocaleString("en")}` + (hasTimes ? `, ${secondsText(live.time[i])}` : "")],
      ["age", (hasTimes ? `${this.ageOf(i)}, ` : "") + `${(moment.event - live.start[i]).toLocaleString("en")} events`],
      ["freed", live.end[i] > lastEvent ? report.is_part ? "not in the range" : "not until the end" : `at event ${live.end[i].toLocaleString("en")}`],
      ["stream", nameOf(report.streams, live.stream[i], "default")],
      ["pool", nameOf(poolNames, live.pool[i], "")],
    ].filter(([, text]) => text);
    const only = document.createElement("button");
    only.textContent = this.onlySite >= 0 ? "every call site" : "only this call site";
    only.addEventListener("click", () => { this.onlySite = this.onlySite >= 0 ? -1 : site; this.filter(); });
    panel.append(listOf(facts));
    if (frames.length) panel.append(only, stackList(frames));
    else panel.append("The trace has no call site for it.");
  }
  explainPool(group, panel) {
    const recorded = [["reserved", `${exactText(group.reserved)} in ${countText(group.blocks, "block")}`], ["unused", exactText(group.unused)], ["largest unused chunk", exactText(group.hole)]];
    panel.append(listOf([["pool", nameOf(poolNames, group.pool, "no pool")], ["in use", exactText(group.size)], ["allocations", group.count.toLocaleString("en")],
      ...(report.segments.count ? recorded : [])]));
    const only = document.createElement("button"), isOnly = byId("pool").value !== "";
    only.textContent = isOnly ? "every pool" : "only this pool";
    only.addEventListener("click", () => { byId("pool").value = isOnly ? "" : String(group.pool); this.filter(); });
    panel.append(only);
  }
}
