"use strict";
// The timeline of one simulation on a canvas. All data is in the page; nothing is fetched.
// Times are integers in nanoseconds. Names come from programs, so they enter the page as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const canvas = document.getElementById("chart");
const tip = document.getElementById("tip");
const pen = canvas.getContext("2d");

const GUTTER = 132;
const AXIS = 24;
const LANE = 30;
const STRIP = 38; // memory
const ROW = LANE + STRIP + 16;
const FEWEST = 20; // nanoseconds across the page when zoomed in as far as it goes
const COMMUNICATION = "#cc79a7";
const COMPUTE = ["#0072b2", "#e69f00", "#009e73", "#56b4e9", "#f0e442"]; // Okabe and Ito, told apart by all
const OTHER = "#8a8a8a";

const events = data.events;
const total = Math.max(data.latency, 1);
const lanes = data.devices.map(lane);
const colours = opColours();
const view = { from: 0, to: total, top: 0 };
const critical = new Uint8Array(events.start.length);
for (const index of data.critical) critical[index] = 1;
const links = [];
events.group.forEach((group, index) => {
  if (data.groups[group].devices.length > 1) links.push(index);
});
let selected = null;
let onlyCritical = false;
let theme = {};
let hatch = null;
let asked = false;

// What is known of each device.

function lane(device, number) {
  const own = [];
  events.group.forEach((group, index) => {
    if (data.groups[group].devices.includes(device.id)) own.push(index);
  });
  const starts = Float64Array.from(own, (index) => events.start[index]);
  const ends = Float64Array.from(own, (index) => events.start[index] + events.duration[index]);
  const busy = new Float64Array(own.length + 1); // before each op; to tell how full a pixel is
  own.forEach((index, i) => { busy[i + 1] = busy[i] + events.duration[index]; });
  const waits = data.waits.filter((wait) => wait.device === device.id);
  return { number, device, own, starts, ends, busy, waits, waitStarts: waits.map((wait) => wait.start) };
}

function opColours() {
  const spent = new Map();
  events.op.forEach((op, i) => spent.set(op, (spent.get(op) || 0) + events.duration[i]));
  const found = data.ops.map((op) => (op.communication ? COMMUNICATION : OTHER));
  const compute = [...spent.keys()].filter((op) => !data.ops[op].communication);
  compute.sort((a, b) => spent.get(b) - spent.get(a) || a - b);
  compute.slice(0, COMPUTE.length).forEach((op, i) => { found[op] = COMPUTE[i]; });
  return found;
}

/** How many of the ascending numbers are at most `value`. */
function upTo(numbers, value) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

// Units.

function duration(ns) {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, size]) => ns >= size) || ["ns", 1];
  return `${Number((ns / size).toPrecision(4))} ${unit}`;
}

function bytes(n) {
  const [unit, size] = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, size]) => n >= size) || ["B", 1];
  return `${Number((n / size).toPrecision(3))} ${unit}`;
}
