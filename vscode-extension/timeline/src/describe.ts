// What is selected, and how things stand, as text in the page: for eyes, and for screen readers.

import { button, element } from "./dom";
import type { State } from "./protocol";
import { modelOf, type Scene } from "./scene";
import type { Shell } from "./shell";
import { facts, named, place, streamOf } from "./words";

/** Describe the selected bar, as the option of its lane and below the lanes; the text, or null for none. */
export function describe({ chart, option, details }: Shell, scene: Scene | null): string | null {
  if (scene === null || scene.selected === null) {
    chart.removeAttribute("aria-activedescendant");
    chart.setAttribute("aria-label", `Timeline of ${new Set(scene?.rows.map((row) => row.device)).size} devices`);
    details.replaceChildren(element("p", {}, "Click an op to see its statement."));
    return null;
  }
  const { selected } = scene;
  const model = modelOf(scene, selected);
  const lane = model.lanes.get(selected.lane)!;
  const { text } = model.statement(selected.bar);
  const parts = [named(model, selected.bar), facts(model, selected.bar), place(model, selected.bar)];
  chart.setAttribute("aria-label", `${streamOf(`device ${lane.device}`, lane.stream)}${selected.isOther ? ", the other program" : ""}`);
  chart.setAttribute("aria-activedescendant", option.id);
  option.setAttribute("aria-selected", "true");
  option.setAttribute("aria-posinset", String(lane.placeOf(selected.bar) + 1));
  option.setAttribute("aria-setsize", String(lane.bars.length));
  option.textContent = parts.join(", ");
  details.replaceChildren(
    ...(text !== null ? [element("code", {}, text)] : []),
    element("p", {}, parts.join(" · ")),
  );
  return parts.join(", ");
}

/**
 * Say whether what is shown is of the latest version. `larger`: a machine that is large enough, where this one is not, and
 * what simulates on it.
 */
export function describeState({ state: line }: Shell, isShown: boolean, state: State, why: string | null, larger: [string, () => void] | null = null): void {
  const reason = why ?? "this one cannot be simulated";
  const texts = {
    simulated: "",
    pending: isShown ? "being simulated; this is the version before" : "being simulated",
    stale: "of an earlier version",
    failed: isShown ? `of an earlier version: ${reason}` : reason,
  };
  line.hidden = state === "simulated" && larger === null;
  line.replaceChildren(texts[state] ?? "", ...(larger === null ? [] : [" ", button(`simulate on ${larger[0]}`, "simulate on a machine that is large enough", larger[1])]));
}
