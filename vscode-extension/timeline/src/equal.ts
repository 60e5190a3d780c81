// Devices that do the same ops at the same times, as replicas and shards do: they can be shown as one.

import type { Model } from "./model";

const bits = new DataView(new ArrayBuffer(8));

/** Devices in groups of equal ones, by their numbers ascending; those that are like no other are alone. */
export function equalDevices(model: Model, other: Model | null): number[][] {
  const groups = new Map<string, number[]>();
  const [own, beside] = [signatures(model), other === null ? null : signatures(other)];
  for (const device of new Set([...own.keys(), ...(beside?.keys() ?? [])])) {
    const key = `${own.get(device)} ${beside?.get(device)}`;
    groups.set(key, [...(groups.get(key) ?? []), device]);
  }
  return [...groups.values()].map((found) => found.sort((a, b) => a - b)).sort((a, b) => a[0] - b[0]);
}

/** By device what it does, as 64 bits for each of its lanes. */
function signatures(model: Model): Map<number, string> {
  const ops = new Map<string, number>();
  const opOf = model.statements.map(({ op }) => {
    if (!ops.has(op)) ops.set(op, ops.size);
    return ops.get(op)!;
  });
  const found = new Map(model.devices.map(({ device, peak, capacity }) => [device, `${peak}/${capacity}`]));
  // Times are sums of doubles, in another order perhaps: equal to fewer bits than they have.
  const scale = model.latency > 0 ? 2 ** 36 / model.latency : 0;
  for (const lane of [...model.lanes.values()]) {
    let [low, high] = [0x811c9dc5, 0x9e3779b9];
    for (let i = 0; i < lane.bars.length; i += 1) {
      bits.setFloat64(0, Math.round(lane.starts[i] * scale));
      const [a, b] = [bits.getInt32(0), bits.getInt32(4)];
      const c = opOf[model.statementOf[lane.bars[i]]];
      low = Math.imul(low ^ a ^ Math.imul(c + 1, 0x85ebca6b), 0x01000193);
      low = Math.imul(low ^ b ^ (low >>> 15), 0xc2b2ae35);
      high = Math.imul(high ^ b ^ Math.imul(c + 7, 0x27d4eb2f), 0x165667b1);
      high = Math.imul(high ^ a ^ (high >>> 13), 0x9e3779b1);
    }
    const own = `${lane.stream}:${lane.bars.length}:${low}:${high}:${Math.round(lane.total * scale)}`;
    found.set(lane.device, `${found.get(lane.device)} ${own}`);
  }
  return found;
}
