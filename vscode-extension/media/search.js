// The configurations that a search found: memory against throughput, and a table. Texts are set as text, never as HTML.
(() => {
  "use strict";
  const vscode = acquireVsCodeApi();
  const root = document.getElementById("search");
  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = { width: 900, height: 340, left: 70, right: 20, top: 12, bottom: 40 };

  let shown;
  window.addEventListener("message", ({ data }) => data.type === "show" && show(...(shown = [data.name, data.found])));
  window.addEventListener("resize", () => shown && show(...shown));
  vscode.postMessage({ type: "ready" });

  function show(name, found) {
    const rows = [...found.rows, ...found.left_out].map((row, id) => ({ ...row, id }));
    const front = paretoFront(rows.filter((row) => row.fits && row.throughput !== null));
    root.replaceChildren(
      element("h1", `${name} on ${found.hardware}, ${found.devices} devices: ${found.configurations} configurations`),
      plot(rows.filter((row) => row.throughput !== null && row.peak_memory_bytes !== null), front),
      element("p", "Each point is a configuration, the line those that no other beats in both; grey ones need more memory than there is. Choose one to see its program.", "legend"),
      table(rows, front),
    );
  }

  /** Configurations that no other one beats in both throughput and memory, by memory. */
  function paretoFront(rows) {
    const sorted = [...rows].sort((a, b) => a.peak_memory_bytes - b.peak_memory_bytes || b.throughput - a.throughput);
    let best = -Infinity;
    return sorted.filter((row) => row.throughput > best && ((best = row.throughput), true));
  }

  function plot(rows, front) {
    SIZE.width = Math.max(320, Math.min(900, root.clientWidth)); // one unit is one pixel: texts are as large as others
    const most = { x: Math.max(1, ...rows.map((row) => row.peak_memory_bytes)), y: Math.max(1e-9, ...rows.map((row) => row.throughput)) };
    const x = (value) => SIZE.left + (value / most.x) * (SIZE.width - SIZE.left - SIZE.right);
    const y = (value) => SIZE.height - SIZE.bottom - (value / most.y) * (SIZE.height - SIZE.top - SIZE.bottom);
    const svg = drawn("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": "Memory against throughput; the table below has the same rows" });

    svg.append(drawn("path", { class: "axis", d: `M${SIZE.left} ${SIZE.top}V${SIZE.height - SIZE.bottom}H${SIZE.width - SIZE.right}`, fill: "none" }));
    for (const at of ticks(most.x)) svg.append(drawn("text", { x: x(at), y: SIZE.height - SIZE.bottom + 16, "text-anchor": "middle" }, bytes(at)));
    for (const at of ticks(most.y)) svg.append(drawn("text", { x: SIZE.left - 6, y: y(at) + 4, "text-anchor": "end" }, count(at)));
    svg.append(drawn("text", { x: SIZE.width - SIZE.right, y: SIZE.height - 4, "text-anchor": "end" }, "memory of the fullest device"));
    svg.append(drawn("text", { x: SIZE.left + 6, y: SIZE.top + 6 }, "examples/s"));
    if (front.length > 0) {
      const steps = front.map((row, i) => `${i ? `H${x(row.peak_memory_bytes)}V` : `M${x(row.peak_memory_bytes)} `}${y(row.throughput)}`);
      svg.append(drawn("path", { class: "front", d: steps.join("") }));
    }
    nameFront(svg, front, x, y);
    for (const row of rows) {
      const kind = !row.fits ? "over" : front.includes(row) ? "" : "behind";
      const point = drawn("circle", { class: `point ${kind}`, cx: x(row.peak_memory_bytes), cy: y(row.throughput), r: 5, "data-row": row.id });
      point.append(drawn("title", {}, `${plan(row)}: ${count(row.throughput)} examples/s, ${bytes(row.peak_memory_bytes)}${row.fit === "fits" ? "" : `, ${row.fit}`}`));
      point.addEventListener("click", () => open(row));
      svg.append(point);
    }
    return svg;
  }

  /** The plans of the front beside their points, those of most throughput first, as far as there is room. */
  function nameFront(svg, front, x, y) {
    const taken = [];
    for (const row of [...front].reverse()) {
      const text = plan(row);
      const [wide, high] = [7 * text.length, 14];
      const right = x(row.peak_memory_bytes) - 8;
      const below = y(row.throughput) - 4;
      const isFree = taken.every(([left, top, end, bottom]) => right < left || right - wide > end || below < top || below - high > bottom);
      if (right - wide < SIZE.left || !isFree) continue;
      taken.push([right - wide, below - high, right, below]);
      svg.append(drawn("text", { class: "name", x: right, y: below, "text-anchor": "end" }, text));
    }
  }

  /** Three to seven round numbers up to the greatest value. */
  function ticks(most) {
    const tenth = 10 ** Math.floor(Math.log10(most / 3));
    const step = [5, 2, 1].map((each) => each * tenth).find((each) => most / each >= 3 - 1e-9);
    return Array.from({ length: Math.floor(most / step + 1e-9) }, (_, i) => (i + 1) * step);
  }

  function table(rows, front) {
    const head = element("tr");
    for (const [title, kind] of [["D/T/P/K", ""], ["batch", "number"], ["latency", "number"], ["examples/s", "number"], ["memory", "number"], ["remarks", ""]]) {
      const cell = element("th", title, kind);
      cell.scope = "col";
      head.append(cell);
    }
    const body = element("tbody");
    for (const row of rows) {
      const line = element("tr", "", row.fits ? "" : "over");
      line.dataset.row = row.id;
      const name = element("td");
      const button = element("button", plan(row));
      button.title = `Open the program: ${row.steps.join(" ")}`;
      button.addEventListener("click", () => open(row));
      name.append(button);
      const remark = row.reason || (row.fit !== "fits" ? row.fit : front.includes(row) ? "on the front" : "");
      line.append(name, element("td", row.batch_size === null ? "" : String(row.batch_size), "number"));
      if (row.latency_s === null) {
        const why = element("td", remark);
        why.colSpan = 4; // no figures: room for the reason
        line.append(why);
        body.append(line);
        continue;
      }
      line.append(
        element("td", `${(row.latency_s * 1e3).toPrecision(3)} ms`, "number"),
        element("td", row.throughput === null ? "" : count(row.throughput), "number"),
        element("td", row.peak_memory_bytes === null ? "" : bytes(row.peak_memory_bytes), "number"),
        element("td", remark),
      );
      body.append(line);
    }
    const made = element("table");
    const top = element("thead");
    top.append(head);
    made.append(top, body);
    return made;
  }

  function open(row) {
    for (const each of root.querySelectorAll(".chosen")) each.classList.remove("chosen");
    for (const each of root.querySelectorAll(`[data-row="${row.id}"]`)) each.classList.add("chosen");
    vscode.postMessage({ type: "open", steps: row.steps });
  }

  function plan(row) {
    const extras = [row.schedule !== "1f1b" && row.P > 1 ? row.schedule : "", row.zero ? `zero=${row.zero}` : "", row.checkpoint ? "checkpoint" : "", row.stages ? `stages=${row.stages}` : ""];
    return [`${row.D}/${row.T}/${row.P}/${row.K}`, ...extras].filter(Boolean).join(" ");
  }

  function bytes(value) {
    const [unit, size] = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, each]) => value >= each) ?? ["B", 1];
    return `${(value / size).toPrecision(3)}${unit}`;
  }

  function count(value) {
    return value.toLocaleString("en", { maximumSignificantDigits: 4 });
  }

  function element(name, text = "", kind = "") {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function drawn(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }
})();
