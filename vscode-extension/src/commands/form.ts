// A form of the editor's own: a list of fields with their values; choosing one asks for another value.

import * as vscode from "vscode";

import { isSet } from "./steps";

/** A field. `value` is what it has now, empty for none; with `choices` the value is picked, else it is typed. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  value: string;
  readonly choices?: readonly string[];
  readonly check?: (value: string) => string | undefined;
  /** The field that must have a value for this one to be asked for. */
  readonly partOf?: string;
}

type Item = vscode.QuickPickItem & { readonly act: Field | "go" };

/** Let the user fill in fields, until they choose `go`. The values by name; undefined where they leave. */
export async function form(title: string, go: (fields: readonly Field[]) => string, fields: readonly Field[]): Promise<Record<string, string> | undefined> {
  let last: Field | undefined;
  const isAskedFor = ({ partOf }: Field): boolean => partOf === undefined || fields.some((field) => field.name === partOf && isSet(field.value));
  for (;;) {
    const items: Item[] = [
      { label: `$(play) ${go(fields)}`, act: "go", alwaysShow: true },
      { label: "", kind: vscode.QuickPickItemKind.Separator, act: "go" },
      ...fields.filter(isAskedFor).map((field) => ({ label: field.label, description: field.value, detail: field.detail, act: field })),
    ];
    const picked = await choose(title, items, items.find((item) => item.act === last));
    if (picked === undefined) return undefined;
    if (picked.act === "go") return Object.fromEntries(fields.map((field) => [field.name, field.value]));
    last = picked.act;
    last.value = (await valueOf(title, last)) ?? last.value;
  }
}

/** A value for a field; undefined where the user goes back. */
async function valueOf(title: string, field: Field): Promise<string | undefined> {
  const options = { title: `${title}: ${field.label}`, placeHolder: field.detail };
  if (field.choices) return vscode.window.showQuickPick([...field.choices], options);
  const check = field.check;
  return vscode.window.showInputBox({ ...options, prompt: field.detail, value: field.value, ...(check ? { validateInput: check } : {}) });
}

function choose(title: string, items: readonly Item[], active: Item | undefined): Promise<Item | undefined> {
  const pick = vscode.window.createQuickPick<Item>();
  pick.title = title;
  pick.items = items;
  pick.placeholder = "Choose a field to change it";
  pick.matchOnDetail = true;
  if (active) pick.activeItems = [active];
  return new Promise((resolve) => {
    pick.onDidAccept(() => {
      resolve(pick.selectedItems[0]);
      pick.dispose();
    });
    pick.onDidHide(() => {
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
  });
}
