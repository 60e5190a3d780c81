// Colours: the extension's own, from its package.json's sources, for the browser's preference of light or dark.

import * as monaco from "monaco";
import palette from "../../palette.json";

const KINDS = ["variable", "parameter", "method", "function"];
/** The modifiers that come before devices in the server's legend, in its order. */
const BEFORE = ["declaration", "unused", "critical", "multiDevice"];

/** Which of the palette's colours the axes of a mesh have, as in package.json. */
const AXES = [0, 2, 1, 9, 7, 11, 3, 12];

const SCOPES = {
  light: { "support.function": "1f1f1f", "entity.name.function": "795e26", "storage.type": "267f99", "constant.other.dimension": "0070c1", "variable.other.property": "001080", comment: "008000", string: "a31515", "constant.numeric": "098658", keyword: "af00db" },
  dark: { "support.function": "dcdcaa", "entity.name.function": "dcdcaa", "storage.type": "4ec9b0", "constant.other.dimension": "4fc1ff", "variable.other.property": "9cdcfe", comment: "6a9955", string: "ce9178", "constant.numeric": "b5cea8", keyword: "c586c0" },
};

function rules(kind: "light" | "dark"): monaco.editor.ITokenThemeRule[] {
  const scopes = Object.entries(SCOPES[kind]).map(([token, foreground]) => ({ token, foreground }));
  const subsets = BEFORE.reduce<string[][]>((all, word) => [...all, ...all.map((words) => [...words, word])], [[]]);
  const devices = palette[kind].flatMap((colour, device) =>
    KINDS.flatMap((type) =>
      subsets.map((words) => ({
        token: [type, ...words, `device${device}`].join("."),
        foreground: colour.slice(1),
        fontStyle: `${words.includes("critical") ? "bold" : ""} ${words.includes("unused") ? "italic" : ""}`.trim(),
      })),
    ),
  );
  const axes = AXES.flatMap((index, axis) => {
    const foreground = palette[kind][index]?.slice(1) ?? "";
    const values = ["variable", "parameter"].flatMap((type) => subsets.flatMap((words) => [[], ["pending"]].map((pending) => ({ type, words, pending }))));
    return [
      ...["typeParameter", "string", "property"].map((type) => ({ token: `${type}.axis${axis}`, foreground })),
      ...values.map(({ type, words, pending }) => ({
        token: [type, ...words, ...pending, `axis${axis}`].join("."),
        foreground,
        fontStyle: `${words.includes("critical") ? "bold" : ""} ${pending.length > 0 ? "underline" : ""}`.trim(),
      })),
    ];
  });
  return [...scopes, { token: "typeParameter", foreground: SCOPES[kind]["constant.other.dimension"] }, { token: "method", foreground: SCOPES[kind]["support.function"] }, { token: "method.critical", fontStyle: "bold" }, ...devices, ...axes];
}

/** Define both themes, and use the one that the browser prefers, now and when it changes. */
export function useThemes(): void {
  for (const kind of ["light", "dark"] as const)
    monaco.editor.defineTheme(`distir-${kind}`, { base: kind === "dark" ? "vs-dark" : "vs", inherit: true, rules: rules(kind), colors: {} });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const use = () => monaco.editor.setTheme(dark.matches ? "distir-dark" : "distir-light");
  dark.addEventListener("change", use);
  use();
}
