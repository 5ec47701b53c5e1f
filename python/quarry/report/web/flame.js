// SPDX-License-Identifier: Apache-2.0
// The flame graph: the bytes in use at the chosen moment by stack, the outermost frame at the top.
"use strict";

const flameRow = 19;  // pixels
const maxFlameDepth = 80;

class FlameGraph {
  constructor(table) {
    this.canvas = byId("flame");
    this.root = this.shown = null;
    this.boxes = [];  // what is drawn: {node, x, y, width}
    table.listeners.push((live, kept) => this.show(live, kept));
    this.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.canvas.addEventListener("mouseleave", () => { byId("tip").style.display = "none"; });
    this.canvas.addEventListener("click", (event) => {
      const box = this.find(event);
      if (!box) return;
      this.shown = box.node;
      this.draw();
    });
    byId("flame-whole").addEventListener("click", () => { this.shown = this.root; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  }
  show(live, kept) {
    const bytes = new Map(), counts = new Map();
    for (const i of kept) {
      bytes.set(live.site[i], (bytes.get(live.site[i]) || 0) + live.size[i]);
      counts.set(live.site[i], (counts.get(live.site[i]) || 0) + 1);
    }
    const nodeOf = (name, parent) => ({ name, parent, size: 0, count: 0, children: new Map() });
    this.root = nodeOf("all", null);
    for (const [site, size] of bytes) {
      const frames = framesOf(site), count = counts.get(site);
      let node = this.root;
      node.size += size;
      node.count += count;
      for (const name of frames.length ? frames.reverse() : ["(unknown)"]) {
        if (!node.children.has(name)) node.children.set(name, nodeOf(name, node));
        node = node.children.get(name);
        node.size += size;
        node.count += count;
      }
    }
    // The same frame stays chosen at another moment, if it is there.
    const path = [];
    for (let node = this.shown; node && node.parent; node = node.parent) path.unshift(node.name);
    this.shown = this.root;
    for (const name of path) this.shown = this.shown?.children.get(name);
    this.shown ||= this.root;
    byId("flame-title").textContent = momentText();
    this.draw();
  }
  draw() {
    if (!this.root) return;
    const ratio = window.devicePixelRatio || 1, width = this.canvas.parentElement.clientWidth;
    const path = [];
    for (let node = this.shown.parent; node; node = node.parent) path.unshift(node);
    this.boxes = path.map((node, depth) => ({ node, x: 0, y: depth * flameRow, width, isAbove: true }));
    const add = (node, x, depth, scale) => {
      const wide = node.size * scale;
      if (wide < 0.5 || depth > maxFlameDepth) return;
      this.boxes.push({ node, x, y: depth * flameRow, width: wide });
      for (const child of [...node.children.values()].sort((a, b) => b.size - a.size)) {
        add(child, x, depth + 1, scale);
        x += child.size * scale;
      }
    };
    if (this.shown.size) add(this.shown, 0, path.length, width / this.shown.size);
    const height = Math.max(...this.boxes.map((box) => box.y + flameRow), flameRow);
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `12px ${font.family}`;
    pen.textBaseline = "middle";
    for (const box of this.boxes) {
      pen.fillStyle = box.isAbove ? "#e3e8ee" : this.colorOf(box.node);
      pen.fillRect(box.x, box.y, Math.max(box.width - 0.7, 0.4), flameRow - 1);
      if (box.width < 34) continue;
      pen.fillStyle = "#1d2733";
      pen.fillText(this.fitted(pen, this.label(box.node), box.width - 8), box.x + 4, box.y + flameRow / 2);
    }
    byId("flame-whole").hidden = this.shown === this.root;
    this.canvas.dataset.boxes = String(this.boxes.length);
  }
  label(node) { return node.parent ? `${node.name} – ${sizeText(node.size)}` : `all: ${sizeText(node.size)} in ${node.count.toLocaleString("en")} allocations`; }
  fitted(pen, text, width) {
    if (pen.measureText(text).width <= width) return text;
    let low = 0, high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pen.measureText(text.slice(0, middle) + "…").width <= width) low = middle; else high = middle - 1;
    }
    return low ? text.slice(0, low) + "…" : "";
  }
  /// A colour for each file, so that layers of a program stand out.
  colorOf(node) {
    if (!node.parent) return "#d4dbe3";
    let hash = 0;
    for (const letter of node.name.split(":")[0]) hash = (hash * 31 + letter.charCodeAt(0)) % 9973;
    return `hsl(${(hash * 47) % 360} 52% ${76 + (hash % 3) * 4}%)`;
  }
  find(event) {
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    return this.boxes.find((each) => each.x <= x && x < each.x + each.width && each.y <= y && y < each.y + flameRow);
  }
  hover(event) {
    const box = this.find(event), tip = byId("tip");
    if (!box) { tip.style.display = "none"; return; }
    const share = this.root.size ? ` (${(box.node.size / this.root.size * 100).toFixed(1)} %)` : "";
    showTip(event, `${box.node.name}\n${sizeText(box.node.size)}${share} in ${box.node.count.toLocaleString("en")} allocations`);
  }
}
