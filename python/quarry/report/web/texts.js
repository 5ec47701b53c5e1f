// SPDX-License-Identifier: Apache-2.0
// Sizes, times and names as texts, and arrays from the data of page.py.
"use strict";

report.axis = report.axes[0];
const units = ["B", "KiB", "MiB", "GiB", "TiB"];
const byId = (id) => document.getElementById(id);

function unpack(packed) {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  const types = { f8: Float64Array, u4: Uint32Array, u1: Uint8Array, i1: Int8Array };
  return new types[packed.type](bytes.buffer);
}

function sizeText(bytes) {
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < units.length - 1) { bytes /= 1024; ++unit; }
  return `${Number(bytes.toPrecision(unit === 0 ? 4 : 3)).toLocaleString("en")} ${units[unit]}`;
}

/// The unit for an axis up to `maximum`: its name, and its bytes.
function unitOf(maximum) {
  const power = maximum > 0 ? Math.min(Math.floor(Math.log2(maximum / 2) / 10), units.length - 1) : 0;
  return { name: units[Math.max(power, 0)], bytes: 1024 ** Math.max(power, 0) };
}

function positionText(position) {
  if (report.axis.unit !== "s") return `event ${Math.round(position).toLocaleString("en")}`;
  const span = report.axis.range[1] - report.axis.range[0];
  if (span < 0.01) return `${(position * 1e6).toFixed(1)} µs`;
  return span < 10 ? `${(position * 1e3).toFixed(3)} ms` : `${position.toFixed(3)} s`;
}
function durationText(length) {
  if (report.axis.unit !== "s") return `${Math.round(length).toLocaleString("en")} events`;
  if (length < 1e-3) return `${(length * 1e6).toPrecision(3)} µs`;
  return length < 1 ? `${(length * 1e3).toPrecision(3)} ms` : `${length.toPrecision(3)} s`;
}

/// A time in nanoseconds, or a duration.
function secondsText(ns) {
  const [scale, unit] = ns < 1e3 ? [1, "ns"] : ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${Number((ns / scale).toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 3 })} ${unit}`;
}

function countText(count, name) { return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`; }
function exactText(bytes) { return bytes < 1024 ? `${bytes} B` : `${sizeText(bytes)} (${bytes.toLocaleString("en")} B)`; }

/// The index of the first value that is not less than `wanted`.
function lowerBound(values, wanted) {
  let first = 0, last = values.length;
  while (first < last) {
    const middle = (first + last) >> 1;
    if (values[middle] < wanted) first = middle + 1; else last = middle;
  }
  return first;
}


function maximumOf(values) {
  let result = 0;
  for (const value of values) if (value > result) result = value;
  return result;
}

/// A call site with a line for each frame; a deep stack in running text, which takes less room.
function stackText(name) {
  const frames = name.split(" < ");
  return frames.length > 30 ? name : frames.join("\n< ");
}

function escaped(text) { return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;"); }

/// Shows a text beside the pointer.
function showTip(event, text) {
  const tip = byId("tip");
  tip.textContent = text;
  tip.style.display = "block";
  const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 12);
  const lowest = window.scrollY + document.documentElement.clientHeight - tip.offsetHeight - 8;
  Object.assign(tip.style, { left: `${left}px`, top: `${Math.max(Math.min(event.pageY + 16, lowest), window.scrollY)}px` });
}
