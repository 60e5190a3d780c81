// Colours: those of the editor's theme in a webview, our own in a plain page. Devices as in the text.

import palette from "../../palette.json";
import { type Rgb, rgbOf } from "./strip";

/** Which of the palette's colours phases have, the most distinct ones: blue, orange, violet, green. */
export const HUES: Readonly<Record<string, number>> = { forward: 2, backward: 0, weight: 12, optimizer: 1 };

export type Kind = "light" | "dark" | "highContrastDark" | "highContrastLight";

/**
 * Which of our palettes the text has, by the theme's name: the rules of `package.json` for tokens know no more of a theme.
 * Themes whose names say nothing have colours that can be read on light and on dark ground.
 */
export function paletteOf(kind: Kind, themeName: string | undefined): keyof typeof palette {
  if (themeName === undefined) return kind; // there is no editor, and no text
  if (themeName.includes("High Contrast Light")) return "highContrastLight";
  if (themeName.includes("High Contrast")) return "highContrastDark";
  if (themeName.includes("Light")) return "light";
  return themeName.includes("Dark") ? "dark" : "any";
}

export interface Theme {
  kind: Kind;
  ground: string;
  raised: string;
  line: string;
  text: string;
  faint: string;
  /** The critical path. */
  mark: string;
  /** What is selected or focused. */
  focus: string;
  /** Hits of a search, and the cursor's statement. */
  hit: string;
  memory: string;
  over: string;
  /** By device, modulo their number. */
  devices: string[];
  /** Of text upon the device's colour. */
  inks: string[];
  /** The same as those above, in parts. */
  deviceParts: Rgb[];
  hitParts: Rgb;
  faintParts: Rgb;
  memoryParts: Rgb;
  overParts: Rgb;
}

/** The kind of theme: what VS Code says of its own, else what the browser prefers. */
export function kindOf(body: HTMLElement): Kind {
  if (body.classList.contains("vscode-high-contrast-light")) return "highContrastLight";
  if (body.classList.contains("vscode-high-contrast")) return "highContrastDark";
  if (body.classList.contains("vscode-dark")) return "dark";
  if (body.classList.contains("vscode-light")) return "light";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (["(prefers-contrast: more)", "(forced-colors: active)"].some((query) => matchMedia(query).matches)) return dark ? "highContrastDark" : "highContrastLight";
  return dark ? "dark" : "light";
}

/** The colours in use. Sets `data-theme`, which the style sheet goes by. */
export function readTheme(): Theme {
  const kind = kindOf(document.body);
  document.documentElement.dataset.theme = kind;
  const style = getComputedStyle(document.body);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  const own = palette[paletteOf(kind, document.body.dataset.vscodeThemeId)];
  const devices = own.map((colour, i) => {
    const themed = value(`--vscode-distir-device${i}`).toLowerCase();
    return themed === "" || themed === palette[kind][i] ? colour : themed; // another one is the user's
  });
  return {
    kind,
    ground: value("--ground"),
    raised: value("--raised"),
    line: value("--line"),
    text: value("--text"),
    faint: value("--faint"),
    mark: value("--mark"),
    focus: value("--focus"),
    hit: value("--hit"),
    memory: value("--memory"),
    over: value("--over"),
    devices,
    deviceParts: devices.map(rgbOf),
    hitParts: rgbOf(value("--hit")),
    faintParts: rgbOf(value("--faint")),
    memoryParts: rgbOf(value("--memory")),
    overParts: rgbOf(value("--over")),
    inks: devices.map((colour) => (luminance(colour) > 0.18 ? "#000000" : "#ffffff")),
  };
}

/** Call back when the theme may have changed. */
export function onThemeChange(changed: () => void): void {
  new MutationObserver(changed).observe(document.body, { attributes: true, attributeFilter: ["class", "data-vscode-theme-id"] });
  new MutationObserver(changed).observe(document.documentElement, { attributes: true, attributeFilter: ["style"] });
  for (const query of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", changed);
  }
}

/** Relative luminance of `#rrggbb` (WCAG 2.2); of what is written otherwise, that of a light colour. */
export function luminance(colour: string): number {
  if (!/^#[0-9a-f]{6}/i.test(colour)) return 1;
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
