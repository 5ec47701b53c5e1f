// SPDX-License-Identifier: Apache-2.0
// A table with a panel that explains the chosen row. Only the visible rows are elements of the page.
"use strict";

const rowHeight = 25;
const maxRows = 1_000_000;  // browsers limit the height of an element

/// The frames of call sites, the innermost first.
let stackTable = { frames: [], sites: [] };
function framesOf(site) { return (stackTable.sites[site] || []).map((frame) => stackTable.frames[frame]); }

/// A function that says whether each word of a text is in some frame of a call site.
function siteSearch(words) {
  const texts = words.length ? stackTable.frames.map((frame) => frame.toLowerCase()) : [];
  const known = new Map();
  return (site) => {
    if (!known.has(site)) known.set(site, words.every((word) => (stackTable.sites[site] || []).some((frame) => texts[frame].includes(word))));
    return known.get(site);
  };
}
function wordsOf(text) { return text.toLowerCase().split(/\s+/).filter((word) => word); }

/// A derived class has `columns()`, which describes the parts of a row, and `explain(i, panel)`; `rows` has the indices `i`. A column is
/// {key, title, text(i), value(i)}, with a `width`, or `wide` if it takes the rest. `name` columns are aligned to the left.
class RowTable {
  constructor() {
    this.rows = [];
    this.selected = 0;
    this.order = { key: "size", sign: -1 };
    this.body = byId("rows-body");
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
  }
  /// Calls `use` when the user has stopped typing.
  onInput(id, use) {
    let timer = 0;
    byId(id).addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(use, 120); });
  }
  /// Shows the rows of these indices, sorted.
  sort(indices, key, sign) {
    const columns = this.columns(), chosen = columns.find((each) => each.key === key) || columns[0];
    this.order = { key: chosen.key, sign };
    this.indices = indices;
    const values = indices.map((i) => chosen.value(i)), isText = typeof values[0] === "string";
    const compare = isText ? (a, b) => sign * values[a].localeCompare(values[b]) || a - b : (a, b) => sign * (values[a] - values[b]) || a - b;
    const order = Uint32Array.from(indices.keys()).sort(compare);
    this.rows = Array.from(order.subarray(0, maxRows), (i) => indices[i]);
    this.drawHead(columns);
    this.body.scrollTop = 0;
    this.select(0);
  }
  drawHead(columns) {
    const widths = columns.map((each) => (each.wide ? "minmax(180px, 1fr)" : `${each.width}px`));
    this.body.parentElement.style.setProperty("--columns", widths.join(" "));
    byId("rows-head").replaceChildren(...columns.map((each) => {
      const cell = document.createElement("button");
      cell.textContent = each.title + (each.key === this.order.key ? (this.order.sign < 0 ? " ▾" : " ▴") : "");
      cell.dataset.key = each.key;
      cell.className = each.wide || each.name ? "" : "number";
      const sign = each.key === this.order.key ? -this.order.sign : each.wide || each.name ? 1 : -1;
      cell.addEventListener("click", () => this.sort(this.indices, each.key, sign));
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
        if (each.color) cell.style.setProperty("--dot", each.color(i));
        if (each.style) each.style(i, cell);
        row.append(cell);
      }
      rows.push(row);
    }
    const spacer = byId("rows");
    spacer.style.height = `${this.rows.length * rowHeight}px`;
    spacer.replaceChildren(...rows);
  }
  select(number) {
    this.selected = number;
    this.drawRows();
    const panel = byId("row-panel");
    panel.replaceChildren();
    this.explain(this.rows[number], panel);
  }
}

/// A list of names and values.
function listOf(facts) {
  const list = document.createElement("dl");
  for (const [name, text] of facts) {
    const term = document.createElement("dt"), value = document.createElement("dd");
    term.textContent = name;
    value.textContent = text;
    list.append(term, value);
  }
  return list;
}

/// A stack with a line for each frame, the innermost first.
function stackList(frames) {
  const stack = document.createElement("ol");
  for (const frame of frames) {
    const line = document.createElement("li");
    line.textContent = frame;
    stack.append(line);
  }
  return stack;
}
