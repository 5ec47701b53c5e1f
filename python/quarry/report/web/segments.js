// SPDX-License-Identifier: Apache-2.0
// The blocks that the recorded allocator held at the chosen moment (PyTorch's segments), and the allocations in them.
"use strict";

const shelfHeight = 20, shelfGap = 5, blockGap = 4;  // pixels

/// The number of a pool's address space: devices may use equal addresses.
function spaceOf(pool) { return report.spaces[pool] || 0; }

/// The blocks in the order of their addresses. Neighbours that an allocation spans are one: PyTorch maps expandable segments in parts.
function joinedBlocks(segments, live) {
  const byAddress = (rows) => Uint32Array.from({ length: rows.count }, (_, i) => i)
    .sort((a, b) => spaceOf(rows.pool[a]) - spaceOf(rows.pool[b]) || rows.address[a] - rows.address[b]);
  const blocks = [], allocations = byAddress(live);
  for (const i of byAddress(segments)) {
    const address = segments.address[i], end = address + segments.size[i];
    blocks.push({ address, end, space: spaceOf(segments.pool[i]), stream: segments.stream[i], pool: segments.pool[i], rows: [], used: 0, hole: 0 });
  }
  let number = 0, outside = 0;
  for (const i of allocations) {
    const address = live.address[i], end = address + live.granted[i], space = spaceOf(live.pool[i]);
    while (number < blocks.length && (blocks[number].space < space || (blocks[number].space === space && blocks[number].end <= address))) ++number;
    const block = blocks[number];
    if (!block || block.space > space || block.address > address) { ++outside; continue; }
    while (block.end < end && blocks[number + 1]?.address === block.end && blocks[number + 1].space === space) block.end = blocks.splice(number + 1, 1)[0].end;
    block.rows.push(i);
    block.used += live.granted[i];
  }
  for (const block of blocks) {
    let last = block.address;
    for (const i of block.rows) {
      block.hole = Math.max(block.hole, live.address[i] - last);
      last = Math.max(last, live.address[i] + live.granted[i]);
    }
    block.hole = Math.max(block.hole, block.end - last);
  }
  return { blocks, outside };
}

class SegmentPicture {
  constructor(table) {
    this.canvas = byId("segments");
    table.listeners.push((live, kept) => this.show(live, kept));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { byId("tip").style.display = "none"; });
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  }
  show(live, kept) {
    Object.assign(this, { live, kept });
    const { blocks: all, outside } = joinedBlocks(moment.segments, live), pool = byId("pool").value;
    const blocks = this.blocks = all.filter((block) => pool === "" || block.pool === Number(pool));
    const sum = (name) => blocks.reduce((total, block) => total + block[name], 0);
    const sizeOf = (some) => some.reduce((total, block) => total + block.end - block.address, 0);
    const reserved = sizeOf(blocks), unused = reserved - sum("used");
    const hole = blocks.reduce((most, block) => Math.max(most, block.hole), 0), whole = blocks.filter((block) => !block.used);
    const share = reserved ? ` (${(100 * unused / reserved).toFixed(1)} %)` : "";
    const left = blocks.length === all.length ? "" : ` of ${all.length.toLocaleString("en")}, those of the chosen pool`;
    byId("segments-note").textContent = `${countText(blocks.length, "block")}${left}, ${sizeText(reserved)}. ${sizeText(unused)}${share} is unused, ` +
      `${sizeText(hole)} of it in the largest chunk, and ${sizeText(sizeOf(whole))} in ${countText(whole.length, "empty block")}.` +
      (outside ? ` ${countText(outside, "allocation")} outside of all blocks.` : "");
    byId("segments-title").textContent = momentText();
    this.draw();
  }
  /// Places blocks on shelves, the largest first. All have the same scale.
  place(width) {
    const blocks = [...this.blocks].sort((a, b) => (b.end - b.address) - (a.end - a.address) || a.address - b.address);
    const total = blocks.reduce((sum, block) => sum + block.end - block.address, 0);
    const largest = blocks.length ? blocks[0].end - blocks[0].address : 1;
    const scale = width / Math.max(largest, total / 16);
    const shelves = [];
    for (const block of blocks) {
      block.width = Math.max((block.end - block.address) * scale, 2);
      let shelf = shelves.findIndex((used) => used + block.width <= width + 0.5);
      if (shelf < 0) shelf = shelves.push(0) - 1;
      Object.assign(block, { x: shelves[shelf], y: shelf * (shelfHeight + shelfGap), scale });
      shelves[shelf] += block.width + blockGap;
    }
    return shelves.length * (shelfHeight + shelfGap);
  }
  draw() {
    if (!this.blocks) return;
    const ratio = window.devicePixelRatio || 1, width = this.canvas.parentElement.clientWidth, height = this.place(width);
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.max(Math.round(height * ratio), 1);
    const pen = this.canvas.getContext("2d"), isKept = new Uint8Array(this.live.count);
    for (const i of this.kept) isKept[i] = 1;
    pen.scale(ratio, ratio);
    for (const block of this.blocks) {
      for (const i of block.rows) {
        pen.fillStyle = isKept[i] ? colorOfRow(this.live.site[i], this.live.size[i], "#9aa5b1") : "#e3e8ee";
        const wide = this.live.granted[i] * block.scale;
        const x = block.x + (this.live.address[i] - block.address) * block.scale;
        pen.fillRect(x, block.y, Math.max(wide - (wide > 4 ? 0.7 : 0), 0.5), shelfHeight);
      }
      pen.strokeStyle = "#7d8b99";
      pen.lineWidth = 0.8;
      pen.strokeRect(block.x + 0.4, block.y + 0.4, Math.max(block.width - 0.8, 0.5), shelfHeight - 0.8);
    }
    this.canvas.dataset.blocks = String(this.blocks.length);
  }
  hover(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const block = (this.blocks || []).find((each) => each.x <= x && x < each.x + each.width && each.y <= y && y < each.y + shelfHeight);
    if (!block) { byId("tip").style.display = "none"; return; }
    const address = block.address + (x - block.x) / block.scale, live = this.live;
    const i = block.rows.find((row) => live.address[row] <= address && address < live.address[row] + live.granted[row]);
    const names = [nameOf(report.streams, block.stream, ""), nameOf(poolNames, block.pool, "")].filter((name) => name).join(", ");
    const what = i === undefined ? "unused" : `${exactText(live.size[i])}\n${stackText(framesOf(live.site[i]).join(" < ")) || "(unknown)"}`;
    showTip(event, `${what}\nin a block of ${sizeText(block.end - block.address)} at 0x${block.address.toString(16)}${names && ` (${names})`}, ` +
      `${sizeText(block.used)} in use, largest unused chunk ${sizeText(block.hole)}`);
  }
}
