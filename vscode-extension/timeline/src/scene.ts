// What there is to draw: the programs, what is seen of them, what is selected. Data that drawing and acting share.

import type { Colouring } from "./colouring";
import type { Row } from "./layout";
import type { Statement, Model } from "./model";
import type { Hits } from "./search";
import type { Theme } from "./theme";
import type { Viewport } from "./viewport";

/** A bar of this program or the other, as one lane shows it. */
export interface Selection {
  isOther: boolean;
  bar: number;
  /** The lane's name. */
  lane: string;
}

/** A stretch of time that is summed up, on some devices; null: on all. */
export interface Range {
  from: number;
  to: number;
  devices: number[] | null;
  /** What it is of, if it is of something: a slice, an op. */
  name: string | null;
}

export interface Scene {
  model: Model;
  other: Model | null;
  rows: Row[];
  /** By lane the row that it is shown in, its own or that of an equal device. */
  rowOf: Map<string, Row>;
  colouring: Colouring;
  /** Of the other program. */
  otherColouring: Colouring | null;
  range: Range | null;
  viewport: Viewport;
  theme: Theme;
  selected: Selection | null;
  cursor: Statement | null;
  hits: Hits | null;
  onlyCritical: boolean;
  /** Whether lanes of hosts are shown. */
  hosts: boolean;
  /** Devices in groups of equal ones. */
  groups: number[][];
  /** Whether equal devices are shown as one. */
  equal: boolean;
  /** Devices that the user has opened or closed. */
  chosen: ReadonlyMap<number, boolean>;
}

export function modelOf(scene: Scene, selection: Selection): Model {
  return selection.isOther && scene.other !== null ? scene.other : scene.model;
}
