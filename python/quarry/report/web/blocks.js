// SPDX-License-Identifier: Apache-2.0
// The picture of the allocations by address.
"use strict";

/// The picture of blocks: a canvas below plotly's axes.
class BlockPicture {
  constructor(element) {
    this.element = element;
    for (const name of ["left", "right"]) this[name] = unpack(report.axis[name]);
    for (const name of ["bottom", "height", "size", "is_freed", "is_older", "group", "site"]) this[name] = unpack(report.blocks[name]);
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
  /// The picture has no begin of an allocation that is older than the shown range, so no duration.
  endText(i) {
    if (!this.is_freed[i]) return report.is_part ? "not freed in the range" : "never freed";
    return this.is_older[i] ? `until ${positionText(this.right[i])}` : `for ${durationText(this.right[i] - this.left[i])}`;
  }
  hover(event) {
    const i = event.buttons ? -1 : this.find(event);
    if (i < 0) { this.hide(); return; }
    const names = report.blocks.names, site = this.site[i];
    const name = site < names.length ? names[site] : `call site without a name: the page names the ${names.length.toLocaleString("en")} with the most blocks`;
    const rounding = this.height[i] === this.size[i] ? "" : `, ${sizeText(this.height[i])} with rounding`;
    showTip(event, `${sizeText(this.size[i])} (${this.size[i].toLocaleString("en")} B${rounding})\n` + (name ? `${stackText(name)}\n` : "") + `address ${this.addressOf(i)}\n` +
      `from ${this.is_older[i] ? "before the range" : positionText(this.left[i])}, ${this.endText(i)}`);
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
  byId("blocks-note").textContent = `Each rectangle is an allocation: its height is its size, its width is the time until its free. Click to choose a moment, drag to zoom, double-click to reset.` +
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
