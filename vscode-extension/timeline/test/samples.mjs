// Timelines to try things on, in the form of `distir/timeline`.

/** Numbers from 0 to 1, the same for each seed. */
export function random(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

const OPS = ["MatMul", "Relu", "Add", "Gemm", "Softmax"];

/**
 * A schedule of so many ops: each starts when all its devices are free, every tenth sends, one in twenty is long.
 * Statements repeat as if a function of 500 were called again and again; each stands in a line of its own.
 */
export function schedule(count, deviceCount, seed, { latency = 0, memory = true } = {}) {
  const next = random(seed);
  const free = new Array(deviceCount).fill(0);
  const busy = new Array(deviceCount).fill(0);
  const bars = [];
  const waits = [];
  const last = new Array(deviceCount).fill(-1);
  for (let event = 0; event < count; event += 1) {
    const statement = event % 500;
    const device = Math.floor(next() * deviceCount);
    const sends = deviceCount > 1 && statement % 10 === 9;
    const devices = sends ? [device + 1, ((device + 1) % deviceCount) + 1] : [device + 1];
    const start = Math.max(...devices.map((d) => free[d - 1]));
    const seconds = (next() < 0.05 ? 40 : 1) * (1e-6 + 4e-7 * Math.floor(10 * next()));
    for (const d of devices) {
      if (free[d - 1] < start) {
        const blocker = last[devices.find((other) => free[other - 1] === start) - 1];
        waits.push({ device: d, start_s: free[d - 1], duration_s: start - free[d - 1], before: event, blocker });
      }
      free[d - 1] = start + seconds;
      busy[d - 1] += seconds;
      last[d - 1] = event;
    }
    const op = sends ? "Send" : OPS[statement % OPS.length];
    const label = `%v${statement}`;
    const end = 2 + label.length + 3 + op.length;
    bars.push({
      event, op, label, function: "block", statement, calls: ["main", "block"],
      range: { start: { line: statement + 1, character: 2 }, end: { line: statement + 1, character: end } },
      start_s: start, duration_s: seconds, devices, bound: sends ? "link" : "compute", slack_s: 0,
      communication: sends ? "send" : null, root: sends ? devices[0] : null,
    });
  }
  const total = Math.max(latency, ...free);
  const longest = free.indexOf(Math.max(...free)) + 1;
  const timeline = {
    version: 1, hardware: "dgx-a100", function: "main", latency_s: total, ops: count, events: count,
    devices: free.map((_, i) => ({
      device: i + 1, busy_s: busy[i], idle_s: total - busy[i], comm_s: 0,
      peak_memory_bytes: 3e9 + i, capacity_bytes: 8e10,
    })),
    bars, next_event: null, waits,
    critical_path: bars.filter((bar) => bar.devices.includes(longest)).map((bar) => bar.event),
  };
  const points = Array.from({ length: Math.min(4000, count) }, (_, i, all = Math.min(4000, count)) => [
    (total * i) / all, Math.floor(1e9 + 2e9 * next()),
  ]);
  const memories = free.map((_, i) => ({
    devices: [i + 1], capacity_bytes: 8e10, peak_bytes: 3e9 + i, peak_op: "MatMul", peak_range: null, peak_s: 0,
    values: [{ name: "w", nbytes: 1e9 }], points,
  }));
  return {
    type: "show",
    document: { uri: "file:///a.dir", name: "a.dir", version: 1 },
    timeline: [timeline],
    memory: memory ? { memories } : null,
  };
}

/** A small program of which everything is known: two devices, one message. Each op takes a quarter of the time. */
export function small({ uri = "file:///a.dir", name = "a.dir", op = "Relu", scale = 1, version = 1 } = {}) {
  const bar = (event, line, what, label, start, devices, more = {}) => ({
    event, op: what, label, function: "main", statement: event, calls: ["main"],
    range: { start: { line, character: 2 }, end: { line, character: 20 } },
    start_s: start * scale * 1e-3, duration_s: scale * 1e-3, devices, bound: "compute", slack_s: 0,
    communication: null, root: null, ...more,
  });
  const bars = [
    bar(0, 1, "MatMul", "%h", 0, [1]),
    bar(1, 2, op, "%a", 1, [1], { bound: "memory" }),
    bar(2, 3, "Send", "%b", 2, [1, 2], { communication: "send", root: 1, bound: "link" }),
    bar(3, 4, "MatMul", "%c", 3, [2]),
  ];
  const device = (number) => ({
    device: number, busy_s: (number === 1 ? 3 : 2) * scale * 1e-3, idle_s: scale * 1e-3, comm_s: scale * 1e-3,
    peak_memory_bytes: 2e9, capacity_bytes: 4e9,
  });
  const curve = (number) => ({
    devices: [number], capacity_bytes: 4e9, peak_bytes: 2e9, peak_op: "MatMul", peak_range: null, peak_s: 0,
    values: [{ name: "w", nbytes: 1e9 }], points: [[0, 1e9], [1e-3 * scale, 2e9], [3e-3 * scale, 1e9]],
  });
  return {
    type: "show",
    document: { uri, name, version },
    timeline: [{
      version, hardware: "dgx-a100", function: "main", latency_s: 4e-3 * scale, ops: 5, events: 4,
      devices: [device(1), device(2)], bars, next_event: null, critical_path: [0, 1, 2, 3],
      waits: [{ device: 2, start_s: 0, duration_s: 2e-3 * scale, before: 2, blocker: 1 }],
    }],
    memory: { memories: [curve(1), curve(2)] },
  };
}

/**
 * Two devices that sum on a stream while they compute: `%b` beside `%a` and `%c`, which waits for the host.
 * Device 2 computes nothing until then.
 */
export function streaming() {
  const message = small();
  const [timeline] = message.timeline;
  const [first, second, , last] = timeline.bars;
  const sum = { op: "MPIAllreduce", label: "%b", devices: [1, 2], communication: "allreduce", bound: "link", stream: "reduce" };
  timeline.bars = [
    { ...first, stream: "" },
    { ...timeline.bars[2], ...sum, event: 1, start_s: 1e-3, duration_s: 3e-3, root: null },
    { ...second, event: 2, stream: "" },
    { ...last, devices: [1], stream: "" },
  ];
  timeline.critical_path = [0, 1];
  timeline.host_bound = 0.125;
  const wait = { before: 1, blocker: 0, start_s: 0, duration_s: 1e-3, device: 2, stream: "reduce" };
  timeline.waits = [wait, { before: 3, blocker: -1, start_s: 2e-3, duration_s: 1e-3, device: 1, stream: "" }];
  return message;
}

/** A program that calls a function of two ops twice, from the lines of `calls`. */
export function calling() {
  const message = small();
  const [timeline] = message.timeline;
  const place = (statement) => ({ function: "main", statement, range: { start: { line: 10 + statement, character: 2 }, end: { line: 10 + statement, character: 20 } } });
  const calls = [place(0), place(1)];
  timeline.bars = [0, 1, 2, 3].map((event) => ({
    ...timeline.bars[event % 2], event, function: "layer", statement: event % 2, calls: ["main", "layer"], callers: [calls[event >> 1]],
    start_s: event * 1e-3, devices: [1],
  }));
  return { message, calls };
}

/** The small program as a training step of one microbatch: its phases are known. */
export function training() {
  const message = small();
  const [timeline] = message.timeline;
  const phases = ["forward", "forward", "forward", "backward"];
  timeline.bars = timeline.bars.map((bar, i) => ({ ...bar, phase: phases[i], microbatch: i === 3 ? null : 1 }));
  return message;
}

/** So many devices, of which all but the second do the same. */
export function replicas(count) {
  const message = small();
  const [timeline] = message.timeline;
  const [device] = timeline.devices;
  const numbers = Array.from({ length: count }, (_, i) => i + 1);
  timeline.devices = numbers.map((number) => ({ ...device, device: number }));
  timeline.bars = numbers.map((number, event) => ({ ...timeline.bars[0], event, statement: event, devices: [number], op: number === 2 ? "Relu" : "MatMul" }));
  timeline.critical_path = [0];
  timeline.waits = [];
  return message;
}

/** The same message with its bars as columns, as `columns: true` asks for them. */
export function inColumns(message) {
  const tabulated = ({ bars, ...answer }) => {
    const [origins, calls, places, kinds, works] = [new Map(), new Map(), new Map(), new Map(), new Map()];
    const number = (entries, entry) => {
      const key = JSON.stringify(entry);
      if (!entries.has(key)) entries.set(key, [entries.size, entry]);
      return entries.get(key)[0];
    };
    const table = { event: [], origin: [], call: [], kind: [], work: [], start_s: [], slack_s: [] };
    for (const bar of bars) {
      const { op, label, function: name, statement, range, duration_s, devices, bound, communication, root, stream } = bar;
      table.event.push(bar.event);
      table.origin.push(number(origins, { op, label, function: name, statement, range }));
      table.call.push(number(calls, [bar.calls, (bar.callers ?? []).map((place) => number(places, place))]));
      table.kind.push(number(kinds, { duration_s, devices, bound, communication, root, stream }));
      table.work.push(number(works, { phase: bar.phase ?? null, microbatch: bar.microbatch ?? null }));
      table.start_s.push(bar.start_s);
      table.slack_s.push(bar.slack_s);
    }
    const entries = (found) => [...found.values()].map(([, entry]) => entry);
    table.origins = entries(origins);
    table.calls = entries(calls).map(([names]) => names);
    table.callers = entries(calls).map(([, found]) => found);
    table.places = entries(places);
    table.kinds = entries(kinds);
    table.works = entries(works);
    return { ...answer, bars: [], table };
  };
  return { ...message, timeline: message.timeline.map(tabulated) };
}
