// Moving about.

function zoom(factor, at) {
  const span = Math.min(total, Math.max(Math.min(FEWEST, total), (view.to - view.from) * factor));
  const share = (at - view.from) / (view.to - view.from);
  view.from = at - share * span;
  view.to = view.from + span;
  move(0, 0);
}

function move(time, down) {
  const span = view.to - view.from;
  view.from = Math.min(Math.max(0, view.from + time), total - span);
  view.to = view.from + span;
  view.top = Math.max(0, Math.min(view.top + down, AXIS + lanes.length * ROW + 8 - height));
  ask();
}

const middle = () => (view.from + view.to) / 2;
function fit() { view.from = 0; view.to = total; move(0, 0); }

canvas.addEventListener("wheel", (wheel) => {
  wheel.preventDefault();
  tip.hidden = true;
  const unit = wheel.deltaMode === 1 ? 16 : 1;
  if (wheel.shiftKey) move(0, (wheel.deltaY || wheel.deltaX) * unit);
  else if (Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) move(((view.to - view.from) / width()) * wheel.deltaX * unit, 0);
  else zoom(1.0018 ** (wheel.deltaY * unit), timeAt(Math.max(GUTTER, wheel.offsetX)));
}, { passive: false });

let held = null;
canvas.addEventListener("pointerdown", (pointer) => {
  canvas.setPointerCapture(pointer.pointerId);
  held = { x: pointer.offsetX, y: pointer.offsetY, moved: false };
});
canvas.addEventListener("pointermove", (pointer) => {
  if (!held) { hover(pointer.offsetX, pointer.offsetY); return; }
  const dx = pointer.offsetX - held.x, dy = pointer.offsetY - held.y;
  if (!held.moved && Math.hypot(dx, dy) < 4) return;
  tip.hidden = true;
  canvas.classList.add("moving");
  move((-dx / width()) * (view.to - view.from), -dy);
  held = { x: pointer.offsetX, y: pointer.offsetY, moved: true };
});
canvas.addEventListener("pointerup", (pointer) => {
  const found = held && !held.moved ? under(pointer.offsetX, pointer.offsetY) : null;
  if (found && found.event !== undefined) choose(found.event);
  held = null;
  canvas.classList.remove("moving");
});
canvas.addEventListener("pointercancel", () => { held = null; canvas.classList.remove("moving"); });
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

canvas.addEventListener("keydown", (key) => {
  if (key.ctrlKey || key.metaKey || key.altKey) return;
  const step = (view.to - view.from) / 8;
  const acts = {
    ArrowLeft: () => move(-step, 0),
    ArrowRight: () => move(step, 0),
    ArrowUp: () => move(0, -ROW),
    ArrowDown: () => move(0, ROW),
    "+": () => zoom(0.7, middle()),
    "=": () => zoom(0.7, middle()),
    "-": () => zoom(1 / 0.7, middle()),
    0: fit,
    Home: fit,
    n: () => neighbour(1),
    p: () => neighbour(-1),
    c: toggleCritical,
    Escape: () => choose(null),
  };
  if (!acts[key.key]) return;
  key.preventDefault();
  acts[key.key]();
});

/** Select the next or previous op, of those on the critical path if only that is shown, and bring it into view. */
function neighbour(step) {
  const count = events.start.length;
  let index = selected === null ? (step > 0 ? 0 : count - 1) : selected + step;
  while (index >= 0 && index < count && onlyCritical && !critical[index]) index += step;
  if (index < 0 || index >= count) return;
  const start = events.start[index], end = start + events.duration[index], span = view.to - view.from;
  if (start < view.from || end > view.to) move((start + end) / 2 - span / 2 - view.from, 0);
  const top = rowTop(laneOf(data.groups[events.group[index]].devices[0]));
  if (top < AXIS || top + ROW > height) move(0, top - AXIS - 6);
  choose(index);
}

function toggleCritical() {
  onlyCritical = !onlyCritical;
  document.getElementById("critical").setAttribute("aria-pressed", String(onlyCritical));
  ask();
}

// What is under the pointer, and what is said of it.

function under(px, py) {
  const own = lanes[Math.floor((py - AXIS + view.top - 6) / ROW)];
  if (!own || px < GUTTER || py < AXIS) return null;
  const time = timeAt(px), slop = ((view.to - view.from) / width()) * 2;
  if (py > rowTop(own.number) + LANE) {
    const memory = data.memories[own.device.memory], i = upTo(memory.times, time) - 1;
    return i < 0 || time > total ? null : { memory, nbytes: memory.values[i] };
  }
  const i = upTo(own.starts, time) - 1;
  for (const k of [i, i + 1]) {
    if (k >= 0 && k < own.own.length && own.starts[k] - slop <= time && own.ends[k] + slop >= time) {
      if (k === i || own.starts[k] <= time || own.ends[k] - own.starts[k] < slop) return { event: own.own[k] };
    }
  }
  const w = upTo(own.waitStarts, time) - 1, wait = own.waits[w];
  return wait && time <= wait.start + wait.duration ? { wait } : null;
}

function hover(px, py) {
  const found = under(px, py);
  tip.hidden = !found;
  if (!found) return;
  tip.replaceChildren(...lines(found).map((text) => paragraph(text)));
  const right = px + 16 + tip.offsetWidth > canvas.clientWidth;
  tip.style.left = `${Math.max(0, right ? px - 12 - tip.offsetWidth : px + 16)}px`;
  tip.style.top = `${Math.max(0, Math.min(py + 16, canvas.clientHeight - tip.offsetHeight - 4))}px`;
}

function lines({ event, wait, memory, nbytes }) {
  if (memory) return [`${bytes(nbytes)} in use`, `memory of ${memory.name}, ${bytes(memory.capacity)} in all`];
  if (wait) return [`device ${wait.device} waits ${duration(wait.duration)}`, `for ${named(wait.blocker)}`];
  return [named(event), ...facts(event)];
}

function named(index) {
  const op = data.ops[events.op[index]].name, name = data.statements[events.statement[index]].label;
  const devices = data.groups[events.group[index]].devices;
  const place = `on device${devices.length > 1 ? "s" : ""} ${devices.join(", ")}`;
  return name === op ? `${op} ${place}` : `${op} ${name} ${place}`;
}

function facts(index) {
  const slack = critical[index] ? "on the critical path" : `slack ${duration(events.slack[index])}`;
  const bound = data.bounds[events.bound[index]];
  return [
    `${duration(events.duration[index])} from ${duration(events.start[index])}, ${slack}`,
    bound === "free" ? "free" : `bound by ${bound}`,
  ];
}

function paragraph(text, element = "p") {
  const made = document.createElement(element);
  made.textContent = text;
  return made;
}

function choose(index) {
  selected = index;
  const details = document.getElementById("details");
  if (index === null) {
    details.replaceChildren(paragraph("Click an op to see its statement."));
  } else {
    const statement = data.statements[events.statement[index]];
    const line = statement.line === null ? "" : `line ${statement.line}, `;
    const calls = data.paths[events.path[index]];
    const where = calls ? `${line}called by ${calls}` : `${line}in @${statement.function}`;
    details.replaceChildren(
      paragraph(statement.text, "code"), paragraph(where), paragraph([named(index), ...facts(index)].join(" · ")));
  }
  ask();
}

// The rest of the page.

function legend() {
  const box = document.getElementById("legend");
  const entries = data.ops.map((op, i) => [op.name, colours[i], op.communication]);
  const shown = entries.filter(([, colour, sends]) => !sends && colour !== OTHER);
  if (entries.some(([, , sends]) => sends)) shown.push(["communication", COMMUNICATION]);
  if (entries.some(([, colour, sends]) => !sends && colour === OTHER)) shown.push(["other ops", OTHER]);
  for (const [name, colour] of shown) box.append(entry(name, (mark) => { mark.style.background = colour; }));
  box.append(entry("waiting", (mark) => { mark.className = "wait"; }));
  box.append(entry("critical path", (mark) => { mark.className = "critical"; }));
}

function entry(name, paint) {
  const made = document.createElement("span"), mark = document.createElement("i");
  paint(mark);
  made.append(mark, name);
  return made;
}

document.getElementById("summary").textContent =
  `${duration(data.latency)} · ${data.count.toLocaleString("en")} ops · ${data.hardware}`;
document.getElementById("in").addEventListener("click", () => zoom(0.7, middle()));
document.getElementById("out").addEventListener("click", () => zoom(1 / 0.7, middle()));
document.getElementById("fit").addEventListener("click", fit);
document.getElementById("critical").addEventListener("click", toggleCritical);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); ask(); });
new ResizeObserver(resize).observe(canvas);
legend();
readTheme();
resize();
