// What there is to draw: the programs, what is seen of them, what is selected. Data that drawing and acting share.

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

export interface Scene {
  model: Model;
  other: Model | null;
  rows: Row[];
  viewport: Viewport;
  theme: Theme;
  selected: Selection | null;
  cursor: Statement | null;
  hits: Hits | null;
  onlyCritical: boolean;
  /** Whether lanes of hosts are shown. */
  hosts: boolean;
}

export function modelOf(scene: Scene, selection: Selection): Model {
  return selection.isOther && scene.other !== null ? scene.other : scene.model;
}
