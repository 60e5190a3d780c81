// Drawing.

function ask() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ground", "raised", "line", "text", "faint", "mark", "memory", "over"]) {
    theme[name] = style.getPropertyValue(`--${name}`).trim();
  }
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const ink = tile.getContext("2d");
  ink.strokeStyle = theme.faint;
  ink.beginPath();
  for (const shift of [-6, 0, 6]) { ink.moveTo(shift, 6); ink.lineTo(shift + 6, 0); }
  ink.stroke();
  hatch = pen.createPattern(tile, "repeat");
}

function resize() {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  wideness = Math.max(1, canvas.clientWidth - GUTTER);
  height = canvas.clientHeight;
  move(0, 0);
}

// Kept, since asking the page for them is slow.
let wideness = 1;
let height = 1;
const width = () => wideness;
const x = (time) => GUTTER + ((time - view.from) / (view.to - view.from)) * width();
const timeAt = (position) => view.from + ((position - GUTTER) / width()) * (view.to - view.from);
const rowTop = (number) => AXIS + number * ROW - view.top + 6;

function draw() {
  pen.clearRect(0, 0, GUTTER + wideness, height);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const visible = lanes.filter(({ number }) => rowTop(number) + ROW > AXIS && rowTop(number) < height);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, width(), height);
  pen.clip();
  for (const own of visible) {
    drawWaits(own);
    drawBars(own);
    drawMemory(own);
  }
  drawLinks();
  pen.restore();
  for (const own of visible) drawGutter(own);
  drawAxis();
}

function drawBars(own) {
  const top = rowTop(own.number), pixel = (view.to - view.from) / width();
  let i = upTo(own.ends, view.from);
  while (i < own.own.length && own.starts[i] < view.to) {
    const index = own.own[i], left = x(own.starts[i]), wide = x(own.ends[i]) - left;
    if (wide >= 1) {
      const shown = Math.max(left, GUTTER - 2), right = Math.min(left + wide, GUTTER + width() + 2);
      pen.globalAlpha = onlyCritical && !critical[index] ? 0.2 : 1;
      pen.fillStyle = colours[events.op[index]];
      pen.fillRect(shown, top, right - shown - (right - shown > 3 ? 0.5 : 0), LANE);
      if (critical[index]) outline(shown, top, right - shown);
      if (index === selected) select(shown, top, right - shown);
      if (right - shown > 30) label(index, shown, top, right - shown);
      i += 1;
      continue;
    }
    // Bars narrower than a pixel: one column for all that begin in it, as strong as it is full.
    // Only the last of them may reach further than the column; it gets a bar of its own.
    let next = Math.max(i + 1, upTo(own.starts, own.starts[i] + pixel));
    if (next > i + 1 && own.ends[next - 1] - own.starts[next - 1] >= pixel) next -= 1;
    let isCritical = false, longest = i;
    for (let k = i; k < Math.min(next, i + 64); k += 1) {
      if (critical[own.own[k]]) isCritical = true;
      if (own.ends[k] - own.starts[k] > own.ends[longest] - own.starts[longest]) longest = k;
    }
    const full = Math.min(1, (own.busy[next] - own.busy[i]) / pixel);
    pen.globalAlpha = (onlyCritical && !isCritical ? 0.2 : 1) * (0.3 + 0.7 * full);
    pen.fillStyle = colours[events.op[own.own[longest]]];
    pen.fillRect(left, top, 1, LANE);
    pen.globalAlpha = 1;
    if (isCritical) { pen.fillStyle = theme.mark; pen.fillRect(left, top, 1, 2); pen.fillRect(left, top + LANE - 2, 1, 2); }
    i = next;
  }
  pen.globalAlpha = 1;
}

function outline(left, top, wide) {
  pen.globalAlpha = 1;
  pen.fillStyle = theme.mark;
  pen.fillRect(left, top, wide, 2);
  pen.fillRect(left, top + LANE - 2, wide, 2);
}

function select(left, top, wide) {
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.text;
  pen.lineWidth = 3;
  pen.strokeRect(left + 1, top - 3, Math.max(2, wide - 2), LANE + 6);
}

function label(index, left, top, wide) {
  const op = data.ops[events.op[index]].name, name = data.statements[events.statement[index]].label;
  pen.save();
  pen.beginPath();
  pen.rect(left, top, wide - 4, LANE);
  pen.clip();
  const colour = colours[events.op[index]];
  pen.fillStyle = colour === "#0072b2" ? "#ffffff" : "#000000";
  pen.fillText(wide > 110 && name !== op ? `${op}  ${name}` : op, left + 5, top + LANE / 2);
  pen.restore();
}

function drawWaits(own) {
  const top = rowTop(own.number), pixel = (view.to - view.from) / width();
  pen.fillStyle = hatch;
  const first = Math.max(0, upTo(own.waitStarts, view.from) - 1);
  for (let i = first; i < own.waits.length && own.waitStarts[i] < view.to; i += 1) {
    const wait = own.waits[i];
    if (wait.duration < pixel) continue;
    const left = Math.max(x(wait.start), GUTTER);
    const wide = Math.min(x(wait.start + wait.duration), GUTTER + width()) - left;
    pen.fillRect(left, top + 3, wide, LANE - 6);
  }
}

function drawMemory(own) {
  const memory = data.memories[own.device.memory], top = rowTop(own.number) + LANE + 4, floor = top + STRIP;
  const { times, values } = memory;
  const most = memory.peak > memory.capacity / 4 ? Math.max(memory.peak, memory.capacity) : memory.peak * 1.25 || 1;
  const y = (n) => floor - (n / most) * STRIP;
  pen.fillStyle = theme.raised;
  pen.fillRect(GUTTER, top, width(), STRIP);
  let i = Math.max(0, upTo(times, view.from) - 1);
  while (i < times.length && times[i] < view.to) {
    const left = Math.max(x(times[i]), GUTTER);
    let highest = values[i], k = i + 1;
    const next = timeAt(left + 1);
    while (k < times.length && times[k] < next) { highest = Math.max(highest, values[k]); k += 1; }
    const right = Math.min(k < times.length ? x(times[k]) : x(total), GUTTER + width());
    // The column itself shows the highest value, what follows it the last one. Whole pixels leave no seams.
    const begin = Math.floor(left), end = Math.floor(right);
    column(begin, 1, highest);
    column(begin + 1, end - begin - 1, values[k - 1]);
    i = k;
  }
  if (memory.capacity <= most) {
    pen.strokeStyle = theme.over;
    pen.lineWidth = 1;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(GUTTER, Math.round(y(memory.capacity)) + 0.5);
    pen.lineTo(GUTTER + width(), Math.round(y(memory.capacity)) + 0.5);
    pen.stroke();
    pen.setLineDash([]);
  }
  function column(left, wide, n) {
    if (wide <= 0) return;
    pen.fillStyle = n > memory.capacity ? theme.over : theme.memory;
    pen.fillRect(left, y(n), wide, floor - y(n));
  }
}

function drawLinks() {
  const pixel = (view.to - view.from) / width();
  // Where bars are thin lines, arrows between them would hide everything else.
  const shown = (index) => events.duration[index] >= 2 * pixel
    && events.start[index] < view.to && events.start[index] + events.duration[index] > view.from;
  pen.strokeStyle = pen.fillStyle = theme.text;
  pen.lineWidth = 1.2;
  for (const index of links) {
    if (!shown(index)) continue;
    pen.globalAlpha = onlyCritical && !critical[index] ? 0.1 : 0.75;
    const group = data.groups[events.group[index]], at = x(events.start[index] + events.duration[index] / 2);
    const hub = group.root ?? group.devices[0];
    for (const device of group.devices) {
      if (device !== hub) link(at, laneOf(group.inwards ? device : hub), laneOf(group.inwards ? hub : device), group.root !== null);
    }
  }
  pen.globalAlpha = 1;
}

const laneNumbers = new Map(data.devices.map((device, number) => [device.id, number]));
function laneOf(device) { return laneNumbers.get(device); }

function link(at, from, to, headed) {
  const down = to > from, a = rowTop(from) + (down ? LANE : 0), b = rowTop(to) + (down ? 0 : LANE);
  const tipOf = down ? -6 : 6;
  pen.beginPath();
  pen.moveTo(at, a);
  pen.lineTo(at, b);
  pen.stroke();
  if (!headed) return;
  pen.beginPath();
  pen.moveTo(at, b);
  pen.lineTo(at - 4, b + tipOf);
  pen.lineTo(at + 4, b + tipOf);
  pen.fill();
}

function drawGutter(own) {
  const top = rowTop(own.number), memory = data.memories[own.device.memory];
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, GUTTER, height);
  pen.clip();
  pen.fillStyle = theme.text;
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillText(`device ${own.device.id}`, 10, top + 9);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = theme.faint;
  pen.fillText(`busy ${Math.round((100 * own.busy[own.own.length]) / total)} %`, 10, top + 23);
  pen.fillStyle = memory.peak > memory.capacity ? theme.over : theme.faint;
  pen.fillText(`peak ${bytes(memory.peak)}`, 10, top + LANE + 14);
  pen.fillText(`of ${bytes(memory.capacity)}`, 10, top + LANE + 28);
  pen.fillStyle = theme.line;
  pen.fillRect(GUTTER - 9, top + LANE + 4, 5, STRIP);
  const part = Math.min(1, memory.peak / memory.capacity) * STRIP;
  pen.fillStyle = memory.peak > memory.capacity ? theme.over : theme.memory;
  pen.fillRect(GUTTER - 9, top + LANE + 4 + STRIP - part, 5, part);
  pen.restore();
}

function drawAxis() {
  pen.fillStyle = theme.ground;
  pen.fillRect(0, 0, GUTTER + wideness, AXIS);
  const least = ((view.to - view.from) / width()) * 110, power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= least));
  pen.fillStyle = theme.faint;
  pen.strokeStyle = theme.line;
  pen.lineWidth = 1;
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const at = Math.round(x(time)) + 0.5;
    pen.beginPath();
    pen.moveTo(at, AXIS - 5);
    pen.lineTo(at, AXIS);
    pen.stroke();
    pen.fillText(time ? duration(time) : "0", at + 4, AXIS / 2);
  }
}
