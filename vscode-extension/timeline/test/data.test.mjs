// Lanes, places, search, words: what can be told without a screen. Laws over many timelines where there are such.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";
import { calling, inColumns, random, replicas, schedule, small, streaming, training } from "./samples.mjs";

const { Model, Viewport, rowsOf, rowAt, search, neighbour, duration, bytes, deviceNames, facts, named, place, compared, summary, waiting, topOf, usualOf, upTo, slicesOf, levelsOf, nameOf, colouring, colouringsOf, bestColouring, Mix, equalDevices, totals, expanded, partsAt, PARTS, HUES, COMMUNICATION, shortened, fittedName, peakOf } =
  await load("model", "viewport", "layout", "search", "words", "draw_memory", "slices", "colouring", "equal", "totals", "expand", "theme", "draw_gutter");

test("what is painted of a lane is what runs there, whatever part is seen", () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const next = random(seed);
    const model = new Model(schedule(Math.floor(2000 * next()) + 2, 3, seed));
    const from = model.latency * next() * 0.9;
    const to = from + (model.latency - from) * (0.01 + 0.99 * next());
    const columns = 1 + Math.floor(400 * next());
    const pixel = (to - from) / columns;
    for (const lane of model.lanes.values()) {
      const seen = new Set();
      let painted = 0;
      let calls = 0;
      let last = -1;
      const take = (first, end) => {
        calls += 1;
        for (let i = first; i < end; i += 1) {
          assert.ok(i > last, "in order, and none twice");
          last = i;
          seen.add(i);
        }
      };
      lane.paint(from, to, columns, {
        bar(i) {
          take(i, i + 1);
          painted += Math.min(to, lane.ends[i]) - Math.max(from, lane.starts[i]);
        },
        column(column, first, end, full) {
          take(first, end);
          assert.ok(column >= -1 && column < columns + 1 && full >= 0 && full <= 1);
          painted += full * pixel;
        },
      });
      let expected = 0;
      for (let i = 0; i < lane.bars.length; i += 1) {
        if (lane.ends[i] <= from || lane.starts[i] >= to) continue;
        assert.ok(seen.has(i), "no bar is left out");
        expected += Math.min(to, lane.ends[i]) - Math.max(from, lane.starts[i]);
      }
      assert.ok(Math.abs(painted - expected) <= 2.01 * pixel + 1e-12, `${painted} of ${expected}`);
      assert.ok(calls <= 2 * columns + 2, `${calls} calls for ${columns} columns`);
    }
  }
});

test("a bar is found where it is, and the sums agree with counting", () => {
  const model = new Model(schedule(3000, 4, 7));
  for (const lane of model.lanes.values()) {
    let critical = 0;
    for (let i = 0; i < lane.bars.length; i += 1) {
      assert.equal(lane.at((lane.starts[i] + lane.ends[i]) / 2, 0), i);
      assert.equal(lane.placeOf(lane.bars[i]), i);
      critical += model.critical[lane.bars[i]];
    }
    assert.equal(lane.criticalIn(0, lane.bars.length), critical);
    for (const wait of lane.waits) assert.equal(lane.waitAt(wait.start_s + wait.duration_s / 2), wait);
  }
});

test("a timeline in pieces is the timeline", () => {
  const whole = schedule(900, 3, 5);
  const [answer] = whole.timeline;
  const cut = (first, last) => ({
    ...answer,
    bars: answer.bars.slice(first, last),
    critical_path: answer.critical_path.filter((event) => event >= first && event < last),
    waits: answer.waits.filter((wait) => wait.before >= first && wait.before < last),
  });
  const [one, two] = [new Model(whole), new Model({ ...whole, timeline: [cut(0, 300), cut(300, 301), cut(301, 900)] })];
  assert.deepEqual(two.starts, one.starts);
  assert.deepEqual(two.path, one.path);
  for (const [device, lane] of one.lanes) assert.deepEqual(two.lanes.get(device).waits, lane.waits);
});

test("bars as columns are the bars", () => {
  const message = schedule(700, 3, 9);
  const [rows, columns] = [new Model(message), new Model(inColumns(message))];
  for (const name of ["events", "starts", "ends", "slack", "critical", "path", "links"]) {
    assert.deepEqual(columns[name], rows[name], name);
  }
  for (let bar = 0; bar < rows.count; bar += 1) {
    assert.deepEqual(columns.group(bar), rows.group(bar));
    assert.deepEqual(columns.statement(bar), rows.statement(bar));
    assert.equal(facts(columns, bar), facts(rows, bar));
    assert.equal(place(columns, bar), place(rows, bar));
  }
});

test("a position in the text is its statement's", () => {
  const model = new Model(small());
  for (const [line, character] of [[2, 2], [2, 10], [2, 20], [2, 0], [2, 70]]) {
    assert.equal(model.statementAt({ line, character })?.label, "%a");
  }
  assert.equal(model.statementAt({ line: 0, character: 5 }), null);
  assert.equal(model.statementAt({ line: 9, character: 0 }), null);
});

test("after an edit the same op is the same, moved statements too", () => {
  const before = new Model(small());
  const message = small({ scale: 2 });
  for (const bar of message.timeline[0].bars) bar.statement += 3;
  const after = new Model(message);
  for (let bar = 0; bar < before.count; bar += 1) assert.equal(after.counterpart(before, bar), bar);
  const gone = new Model(small({ op: "Tanh" }));
  assert.equal(gone.counterpart(before, 1), null);
});

test("a search finds the ops that hold all words", () => {
  const model = new Model(schedule(2000, 3, 3));
  for (const text of ["send", "MATMUL v1", "@block", "@main %v20", "nothing", "relu v1 @main"]) {
    const words = text.toLowerCase().split(" ");
    const hits = search(model, text);
    for (let bar = 0; bar < model.count; bar += 1) {
      const { op, label, function: name } = model.statement(bar);
      const all = [op, label, `@${name}`, ...model.paths[model.pathOf[bar]].map((n) => `@${n}`)].join("\n").toLowerCase();
      assert.equal(hits.flags[bar] === 1, words.every((word) => all.includes(word)));
    }
    assert.deepEqual([...hits.bars], [...hits.flags].flatMap((flag, bar) => (flag ? [bar] : [])));
    let at = null;
    const round = [...hits.bars].map(() => (at = neighbour(hits.bars, at, 1)));
    assert.deepEqual(round, [...hits.bars]);
    if (round.length > 0) assert.equal(neighbour(hits.bars, at, 1), round[0], "round at the end");
    if (round.length > 1) assert.equal(neighbour(hits.bars, round[1], -1), round[0]);
  }
  assert.equal(search(model, "  "), null);
});

test("zooming keeps what is under the pointer, and nothing is seen beyond the ends", () => {
  for (let seed = 1; seed < 200; seed += 1) {
    const next = random(seed);
    const view = new Viewport();
    view.retime(10 ** (-7 + 6 * next()));
    view.resize(200 + 1000 * next(), 100 + 400 * next());
    view.content = 2000 * next();
    view.fit();
    for (let i = 0; i < 30; i += 1) {
      const at = view.from + view.span * next();
      const x = view.x(at);
      const factor = 0.3 + 2 * next();
      const free = view.span * factor < view.total && view.span * factor > 20e-9;
      view.zoom(factor, at);
      const edge = view.from === 0 || Math.abs(view.to - view.total) < 1e-9 * view.total;
      if (free && !edge) assert.ok(Math.abs(view.x(at) - x) < 1e-3, `${view.x(at)} was ${x}`);
      view.move(view.span * (next() - 0.5) * 3, 500 * (next() - 0.5));
      assert.ok(view.from >= 0 && view.to <= view.total * (1 + 1e-9) && view.to > view.from);
      assert.ok(view.top >= 0 && view.top <= Math.max(0, view.content - view.height));
    }
  }
});

test("another version leaves what is seen where it is", () => {
  const view = new Viewport();
  view.retime(1);
  view.fit();
  view.retime(2);
  assert.deepEqual([view.from, view.to], [0, 2], "everything stays everything");
  view.show(0.5, 0.75);
  view.retime(3);
  assert.deepEqual([view.from, view.to], [0.5, 0.75]);
  view.retime(0.6);
  assert.ok(view.to <= 0.6 + 1e-12 && Math.abs(view.span - 0.25) < 1e-12);
  view.retime(0);
  assert.ok(view.span > 0, "a program that takes no time");
});

test("revealing moves no more than it must", () => {
  const view = new Viewport();
  view.retime(1);
  view.resize(100, 100);
  view.content = 1000;
  view.show(0.2, 0.3);
  view.reveal(0.22, 0.25, 10, 60);
  assert.deepEqual([view.from, view.top], [0.2, 0]);
  view.reveal(0.7, 0.72, 500, 560);
  assert.ok(view.from < 0.7 && view.to > 0.72 && Math.abs(view.span - 0.1) < 1e-12);
  assert.ok(view.top <= 500 && view.top + view.height >= 560);
});

/** The rows of a view so high, each device in one of its own. */
function arranged(model, other = null, { hosts = true, height = 600, levels = 0, chosen = new Map(), groups } = {}) {
  const devices = [...new Set([model, other].flatMap((each) => each?.devices ?? []).map(({ device }) => device))].sort((a, b) => a - b);
  return rowsOf(model, other, { groups: groups ?? devices.map((device) => [device]), hosts, height, levels, chosen });
}

test("no colour of a phase, or of communication, is one of a part of memory", () => {
  const phases = [...Object.values(HUES), COMMUNICATION];
  const memory = PARTS.map(([, hue]) => hue).filter((hue) => hue >= 0);
  assert.equal(new Set([...phases, ...memory]).size, phases.length + memory.length);
});

test("two devices fill a page, and long names keep both their ends", () => {
  const model = new Model(small());
  assert.equal(model.devices.length, 2);
  for (const height of [500, 900]) assert.ok(arranged(model, null, { height }).at(-1).bottom > 0.9 * height);
  const pen = { measureText: (text) => ({ width: 10 * text.length }) };
  assert.equal(shortened(pen, "1 gather_weights_of_layer_12", 120), "1 gath…er_12");
  assert.equal(shortened(pen, "1 reduce", 120), "1 reduce");
});

test("a slice that is too narrow for its name keeps the microbatch, and the end of a function's name", () => {
  const work = (phase, microbatch) => ({ kind: "work", work: { phase, microbatch } });
  const call = { kind: "call", name: "stage_1_accumulate", place: {} };
  const cut = (part) => [20, 9, 7, 5, 2, 1].map((room) => fittedName(part, room));
  assert.deepEqual(cut(work("forward", 1)), ["forward 1", "forward 1", "forw… 1", "1", "1", "1"]);
  assert.deepEqual(cut(work("backward", 12)), ["backward 12", "backw… 12", "bac… 12", "12", "12", ""]);
  assert.deepEqual(cut(work("optimizer", null)), ["optimizer", "optimizer", "opt…zer", "opti…", "", ""]);
  assert.deepEqual(cut(call), ["@stage_1_accumulate", "@sta…late", "@st…ate", "@sta…", "", ""]);
});

test("what is beside tensors in a memory is called so", () => {
  assert.deepEqual(peakOf({ peak: 239e6, overhead: 1.45e9, capacity: 80e9 }), ["239MB of 80.0GB", "+ 1.45GB overhead"]);
  assert.deepEqual(peakOf({ peak: 239e6, overhead: 0, capacity: 80e9 }), ["239MB of 80.0GB"]);
});

test("each height belongs to the row that is there", () => {
  const [model, other] = [new Model(small()), new Model(schedule(50, 5, 2))];
  for (const rows of [arranged(model), arranged(model, other), arranged(other, null, { height: 10 })]) {
    for (const row of rows) for (let y = row.sliceTop; y < row.bottom; y += 1) assert.equal(rowAt(rows, y), row);
    assert.equal(rowAt(rows, 0), null);
    assert.equal(rowAt(rows, rows.at(-1).bottom), null);
  }
  assert.deepEqual(arranged(model, other).map((row) => row.device), [1, 2, 3, 4, 5]);
  assert.equal(rowAt([], 5), null);
});

test("each stream of a device has a lane, beneath that of compute and above the memory", () => {
  for (const message of [streaming(), inColumns(streaming())]) {
    const model = new Model(message);
    const bars = [...model.lanes].map(([name, lane]) => [name, [...lane.bars]]);
    assert.deepEqual(bars, [["1", [0, 2, 3]], ["1 reduce", [1]], ["2", []], ["2 reduce", [1]]]);
    for (const { starts, ends } of model.lanes.values()) {
      for (let i = 1; i < starts.length; i += 1) assert.ok(ends[i - 1] <= starts[i], "no bar hides another one");
    }
    assert.deepEqual(model.lanes.get("2 reduce").waits.map((wait) => wait.before), [1]);
    assert.deepEqual(model.lanes.get("2").waits, []);
    for (const other of [null, new Model(small())]) {
      const rows = arranged(model, other);
      assert.deepEqual(rows.map((row) => [row.lane, row.stripTop !== null]), [["1", false], ["1 reduce", true], ["2", false], ["2 reduce", true]]);
      for (const row of rows) for (let y = row.top; y < row.bottom; y += 1) assert.equal(rowAt(rows, y), row);
    }
    assert.equal(named(model, 1), "MPIAllreduce %b on devices 1, 2, stream reduce");
  }
  assert.deepEqual([...new Model(small()).lanes.keys()], ["1", "2"], "of a program without streams one for each device");
});

test("a wait for the host says so, and so does the head", () => {
  const model = new Model(streaming());
  const said = (lane) => waiting(model, model.lanes.get(lane).waits[0]);
  assert.deepEqual(said("1"), ["device 1 waits 1.00ms", "for the host"]);
  assert.deepEqual(said("2 reduce"), ["device 2, stream reduce waits 1.00ms", "for MatMul %h on device 1"]);
  assert.equal(waiting(model, { ...model.lanes.get("1").waits[0], blocker: 77 })[1], "for an op that is not shown");
  assert.equal(summary(model), "4.00ms · 13% host-bound · 5 ops · dgx-a100");
  assert.equal(summary(new Model(small())), "4.00ms · 5 ops · dgx-a100");
});

test("the head says which devices have too little memory", () => {
  const full = small();
  const [device] = full.timeline[0].devices;
  const over = (count) => Array.from({ length: count }, (_, k) => ({ ...device, device: k + 1, fits: false }));
  const said = (count) => {
    full.timeline[0].devices = [...over(count), { ...device, device: count + 1, fits: true }];
    return summary(new Model(full)).split(" · ")[1];
  };
  assert.equal(said(0), "5 ops");
  assert.equal(said(1), "out of memory: device 1");
  assert.equal(said(2), "out of memory: devices 1, 2");
  assert.equal(said(10), "out of memory: devices 1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
});

test("the head says of which devices it is open whether they have enough", () => {
  const full = small();
  const [device] = full.timeline[0].devices;
  const open = { ...device, fit: "may not fit" };
  full.timeline[0].devices = [{ ...open, device: 1, fits: true }, { ...open, device: 2, fits: true }, { ...device, device: 3, fits: true, fit: "fits" }];
  assert.equal(summary(new Model(full)), "4.00ms · may not fit: devices 1, 2 · 5 ops · dgx-a100");
  full.timeline[0].devices = [{ ...open, device: 1, fits: false }, { ...device, device: 2, fits: false, fit: "does not fit" }];
  assert.equal(summary(new Model(full)), "4.00ms · out of memory: devices 1, 2 · may fit all the same: device 1 · 5 ops · dgx-a100");
});

test("units and words", () => {
  assert.deepEqual([0, 3e-9, 1e-6, 1.25e-3, 1, 90].map(duration), ["0s", "3.00ns", "1.00us", "1.25ms", "1.00s", "90.0s"]);
  assert.deepEqual([0, 999, 1000, 3.14e9, 2e12].map(bytes), ["0B", "999B", "1.00kB", "3.14GB", "2.00TB"]);
  const many = Array.from({ length: 512 }, (_, i) => i + 1);
  assert.deepEqual([[3], [1, 2], many].map(deviceNames), ["device 3", "devices 1, 2", "512 devices from 1 to 512"]);
  const model = new Model(small());
  assert.equal(named(model, 2), "Send %b on devices 1, 2");
  assert.equal(facts(model, 1), "1.00ms from 1.00ms, on the critical path, bound by memory bandwidth");
  assert.equal(place(model, 1), "line 3, in @main");
  const other = new Model(small({ scale: 2, name: "b.dir" }));
  assert.equal(compared(model, other, null), "b.dir: 8.00ms → 4.00ms, 2.00x faster");
  assert.equal(upTo([1, 2, 2, 3], 2), 3);
});

test("memory is drawn against the capacity, unless nothing could be seen then", () => {
  assert.equal(topOf(3, 4), 4);
  assert.equal(topOf(5, 4), 5);
  assert.equal(topOf(4, 400), 5);
  assert.ok(topOf(0, 0) > 0);
});

test("a peak of a moment does not set the scale of the memory", () => {
  const curve = (points) => ({ devices: [1], capacity_bytes: 400, peak_bytes: 90, peak_s: 5, points });
  const spike = curve([[0, 10], [5, 90], [5.01, 12], [10, 12]]);
  assert.equal(usualOf(spike), 12);
  assert.equal(topOf(90, 400, usualOf(spike)), 1.5 * 12 * 1.25);
  assert.equal(topOf(90, 100, usualOf(spike)), 100, "against the capacity it is shown whole");
  const plateau = curve([[0, 10], [5, 90], [8, 12], [10, 12]]);
  assert.equal(topOf(90, 400, usualOf(plateau)), 90 * 1.25);
  assert.equal(usualOf(curve([[0, 90]])), 90);
});

test("the parts of a memory over time add up to its curve", () => {
  const parts = [["weights", 3, [[0, 3]]], ["activations", 4, [[1, 4], [3, 0]]], ["temporary", 2, [[2, 2], [3, 1]]]];
  const points = [[0, 3], [1, 7], [2, 9], [3, 4]];
  const curve = { devices: [1], points, parts: parts.map(([name, nbytes, changes]) => ({ name, nbytes, changes })) };
  points.forEach(([, nbytes], i) => assert.equal(partsAt(curve, i).reduce((sum, [, part]) => sum + part, 0), nbytes));
  assert.deepEqual(partsAt(curve, 2), [["weights", 3], ["activations", 4], ["temporary", 2]]);
  assert.deepEqual(partsAt(curve, 3), [["weights", 3], ["temporary", 1]]);
  assert.equal(partsAt({ ...curve, parts: [{ name: "weights", nbytes: 3 }] }, 2), null, "of an answer without changes");
});

test("a program without ops that take time", () => {
  const message = small();
  Object.assign(message.timeline[0], { bars: [], critical_path: [], waits: [], latency_s: 0, devices: [] });
  const model = new Model({ ...message, memory: null });
  assert.equal(model.count, 0);
  assert.equal(search(model, "x").bars.length, 0);
  assert.equal(model.statementAt({ line: 1, character: 1 }), null);
});

test("a host has a lane below its device's, which can be hidden", () => {
  const message = streaming();
  const hosts = [{ device: 1, event: [0, 1, 3], start_s: [0, 1e-4, 2e-4], end_s: [1e-4, 2e-4, 3e-4] }];
  message.timeline[0].hosts = hosts;
  const model = new Model(message);
  assert.equal(model.hasHosts, true);
  const lane = model.lanes.get("1 (host)");
  assert.deepEqual([...lane.bars], [0, 1, 3]);
  assert.deepEqual([...lane.starts], hosts[0].start_s);
  assert.ok(Math.abs(lane.total - 3e-4) < 1e-12);
  assert.deepEqual(arranged(model).map((row) => row.lane), ["1", "1 (host)", "1 reduce", "2", "2 reduce"]);
  assert.deepEqual(arranged(model, null, { hosts: false }).map((row) => row.lane), ["1", "1 reduce", "2", "2 reduce"]);
  assert.equal(new Model(streaming()).hasHosts, false);
});

test("two devices fill the view, 64 fit it, 1,024 scroll; one that is opened has all of its height", () => {
  const heights = (count, height, more = {}) => {
    const rows = arranged(new Model(replicas(count)), null, { height, levels: 2, ...more });
    return { rows, whole: rows.at(-1).bottom };
  };
  const two = heights(2, 640);
  assert.ok(two.whole <= 640 && two.whole > 0.7 * 640, `${two.whole} of 640`);
  assert.ok(two.rows.every(({ levels, stripTop }) => levels === 2 && stripTop !== null));
  for (const count of [3, 8, 16, 24, 32, 48, 64]) assert.ok(heights(count, 640).whole <= 640, `${count} devices fit`);
  const many = heights(1024, 640);
  assert.ok(many.whole > 640 && many.whole < 1024 * 12);
  assert.ok(many.rows.every(({ bars }) => bars >= 6), "each can be seen");
  const opened = heights(1024, 640, { chosen: new Map([[3, true]]) }).rows[2];
  assert.ok(opened.stripTop !== null && opened.levels === 2 && opened.isOpen);
  const closed = heights(2, 640, { chosen: new Map([[1, false]]) }).rows;
  assert.ok(closed[0].stripTop === null && closed[1].stripTop !== null);
});

test("slices are the calls and the work that bars belong to", () => {
  const { message } = calling();
  const model = new Model(message);
  assert.equal(levelsOf(model), 1);
  const [calls] = slicesOf(model, model.lanes.get("1"));
  assert.deepEqual([...calls.firsts].map((first, i) => [first, calls.lasts[i], nameOf(calls.part(i))]), [[0, 1, "@layer"], [2, 3, "@layer"]]);
  assert.deepEqual([...calls.starts, ...calls.ends], [0, 2e-3, 2e-3, 4e-3]);
  const trained = new Model(training());
  const [work] = slicesOf(trained, trained.lanes.get("2"));
  assert.deepEqual([...work.starts].map((_, i) => nameOf(work.part(i))), ["forward 1", "backward"]);
});

test("the sums of a colouring are those of the bars", () => {
  const model = new Model(schedule(5000, 2, 3));
  const { slotOf, names } = colouring(model, "op");
  for (const lane of model.lanes.values()) {
    const mix = new Mix(lane, slotOf, names.length);
    const next = random(5);
    for (let round = 0; round < 200; round += 1) {
      const first = Math.floor(next() * lane.bars.length);
      const last = first + 1 + Math.floor(next() * (lane.bars.length - first));
      const expected = new Float64Array(names.length);
      for (let i = first; i < last; i += 1) expected[slotOf[lane.bars[i]]] += lane.ends[i] - lane.starts[i];
      mix.seconds(first, last).forEach((seconds, slot) => assert.ok(Math.abs(seconds - expected[slot]) < 1e-9));
      assert.ok(expected[mix.most(first, last)] >= Math.max(...expected) - 1e-9);
    }
  }
  assert.deepEqual(colouringsOf(model), ["device", "op", "critical path"], "what says nothing is not offered");
  assert.equal(bestColouring(model), "device");
  assert.equal(bestColouring(new Model(training())), "phase");
});

test("totals are the bars' seconds, parts of bars as far as they are within", () => {
  const model = new Model(schedule(2000, 3, 11));
  for (const [from, to] of [[0, model.latency], [model.latency * 0.2, model.latency * 0.37]]) {
    const found = totals(model, from, to, [1, 2, 3]);
    let [seconds, devices] = [0, 0];
    for (let bar = 0; bar < model.count; bar += 1) {
      const inside = Math.min(to, model.ends[bar]) - Math.max(from, model.starts[bar]);
      if (inside > 0) seconds += inside * model.group(bar).devices.length;
    }
    for (const { computes, exposed, idle } of found.devices) {
      assert.ok(Math.abs(computes + exposed + idle - (to - from)) < 1e-9);
      devices += computes + exposed;
    }
    assert.ok(Math.abs(devices - seconds) < 1e-9, "no two ops at a time on a device");
    for (const by of [found.by.op, found.by.function]) {
      assert.ok(Math.abs(by.reduce((sum, total) => sum + total.seconds, 0) - seconds) < 1e-9);
      assert.deepEqual(by, [...by].sort((a, b) => b.seconds - a.seconds), "largest first");
    }
  }
  const overlapping = totals(new Model(streaming()), 0, 4e-3, [1]).devices[0];
  assert.ok(Math.abs(overlapping.exposed - 1e-3) < 1e-12, "what is hidden by an op of another stream is not exposed");
});

test("equal devices are those that do the same at the same times", () => {
  assert.deepEqual(equalDevices(new Model(replicas(5)), null), [[1, 3, 4, 5], [2]]);
  const message = replicas(3);
  message.timeline[0].bars[2].start_s = 1e-6;
  assert.deepEqual(equalDevices(new Model(message), null), [[1], [2], [3]], "later");
  assert.deepEqual(equalDevices(new Model(replicas(3)), new Model(message)), [[1], [2], [3]], "unlike in the other program");
  const groups = equalDevices(new Model(replicas(5)), null);
  assert.deepEqual(arranged(new Model(replicas(5)), null, { groups }).map(({ devices }) => devices), groups);
});

test("blocks become what hosts issue, and a lane that waits for its host says so", () => {
  const op = { duration_s: 1, devices: [7], bound: "compute", communication: null, root: null, stream: "", phase: null, microbatch: null };
  const place = (name, statement) => ({ op: "Relu", label: "%x", function: name, statement, range: null });
  const issued = { item: [0, 1], device: [7, 7], start_s: [0, 2], end_s: [0.5, 3] };
  const table = {
    statements: [place("layer", 0), place("main", 0), place("main", 1)],
    kinds: [op],
    renamings: [{ devices: [[7, 1]], microbatch: null }, { devices: [[7, 2]], microbatch: null }],
    blocks: [
      { function: "layer", events: 2, statement: [0, 0], kind: [0, 0], name: [-1, -1], event: [0, 1], start_s: [0, 2.5], issued },
      { function: "main", events: 4, statement: [1, 2], kind: [-1, -1], name: [0, 1], event: [0, 2], start_s: [0.5, 5.5], host_s: [0, 4] },
    ],
  };
  assert.deepEqual([...expanded(table).start_s], [0.5, 3, 5.5, 8]);
  assert.deepEqual(expanded(table).hosts, [
    { device: 1, event: [0, 1], start_s: [0, 2], end_s: [0.5, 3] }, { device: 2, event: [2, 3], start_s: [4, 6], end_s: [4.5, 7] },
  ]);
  const message = small();
  Object.assign(message.timeline[0], { bars: [], blocks: table, latency_s: 9, critical_path: [], waits: [] });
  const model = new Model({ ...message, memory: null });
  assert.deepEqual([...model.lanes.get("2 (host)").bars], [2, 3]);
  assert.deepEqual(model.lanes.get("1").waits.map(({ start_s, blocker }) => [start_s, blocker]), [[0, -1], [1.5, -1]]);
});

test("blocks become the bars that they repeat", () => {
  const place = (name, statement) => ({ op: "Relu", label: "%x", function: name, statement, range: null });
  const op = (devices, microbatch) => ({ duration_s: 1, devices, bound: "compute", communication: null, root: null, stream: "", phase: "forward", microbatch });
  const table = {
    statements: [place("layer", 0), place("main", 0), place("main", 1), place("main", 2)],
    kinds: [op([7], 1), op([1], null)],
    renamings: [{ devices: [[7, 1]], microbatch: 3 }, { devices: [[7, 2]], microbatch: 4 }],
    blocks: [
      { function: "layer", events: 2, statement: [0, 0], kind: [0, 0], name: [-1, -1], event: [0, 1], start_s: [0, 1] },
      { function: "main", events: 5, statement: [1, 2, 3], kind: [-1, 1, -1], name: [0, -1, 1], event: [0, 2, 3], start_s: [0, 2, 10] },
    ],
  };
  const { event, origin, call, kind, work, start_s: start, kinds, works, calls, callers } = expanded(table);
  const bars = [...event].map((number, i) => [number, start[i], kinds[kind[i]].devices[0], works[work[i]].microbatch, origin[i], calls[call[i]].join("/")]);
  assert.deepEqual(bars, [
    [0, 0, 1, 3, 0, "main/layer"], [1, 1, 1, 3, 0, "main/layer"], [2, 2, 1, null, 2, "main"],
    [3, 10, 2, 4, 0, "main/layer"], [4, 11, 2, 4, 0, "main/layer"],
  ]);
  assert.deepEqual(callers, [[], [1], [3]]);
  for (let most = 1; most <= event.length; most += 1) assert.equal(expanded(table, most).event.length, most, "no more than can be held");
  const message = small();
  Object.assign(message.timeline[0], { bars: [], blocks: table, latency_s: 12, critical_path: [0, 4], waits: [] });
  const model = new Model({ ...message, memory: null });
  assert.deepEqual([...model.lanes.get("2").bars], [3, 4]);
  const [wait] = model.lanes.get("2").waits;
  assert.deepEqual([wait.start_s, wait.duration_s, wait.before], [0, 10, 3], "times between bars are waits");
});
