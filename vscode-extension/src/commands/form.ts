// A form of the editor's own: a list of fields with their values; choosing one asks for another value.

import * as vscode from "vscode";

import { unmarked, wrapped } from "../figures";
import { Refused } from "../requests";
import { isSet } from "./steps";

/** A field. `value` is what it has now, empty for none; with `choices` the value is picked, else it is typed. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  value: string;
  readonly choices?: readonly string[];
  readonly check?: (value: string) => string | undefined;
  /** What it is about: neighbours of one group have a common heading. */
  readonly group?: string;
  /** The field that must have a value for this one to be asked for. */
  readonly partOf?: string;
}

type Item = vscode.QuickPickItem & { readonly act: Field | "go" | "nothing" };

const LEAVE_OUT = "(leave out)";

/**
 * Let the user fill in fields, until what they are for is done. `go` labels the item that does it, `submit` does it with
 * the values by name. What is refused is said in the form, which stays. Undefined where the user leaves. `inOrder` puts
 * those fields first that are looked for, where the list is longer than the window.
 */
export async function form<T>(
  title: string,
  go: (fields: readonly Field[]) => string,
  fields: readonly Field[],
  submit: (values: Record<string, string>) => Promise<T>,
  inOrder: (shown: readonly Field[]) => readonly Field[] = (shown) => shown,
): Promise<T | undefined> {
  let wrong = "";
  const isChosen = (name: string): boolean => fields.some((field) => field.name === name && isSet(field.value));
  const isAskedFor = ({ partOf }: Field): boolean => partOf === undefined || isChosen(partOf);
  for (;;) {
    const items: Item[] = [
      { label: `$(play) ${go(fields)}`, act: "go", alwaysShow: true },
      ...said(wrong),
      ...inOrder(fields.filter(isAskedFor)).flatMap((field, i, all) => [...heading(field, all[i - 1]), { label: field.label, description: field.value, detail: field.detail, act: field }]),
    ];
    const picked = await choose(title, items, wrong !== "");
    if (picked === undefined) return undefined;
    if (picked.act === "nothing") continue;
    if (picked.act === "go") {
      try {
        return await submit(Object.fromEntries(fields.map((field) => [field.name, field.value])));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        wrong = error.message;
      }
      continue;
    }
    wrong = "";
    picked.act.value = (await valueOf(title, picked.act)) ?? picked.act.value;
  }
}

/** A heading for the first field, and for the first one of a group. */
function heading({ group = "" }: Field, before: Field | undefined): Item[] {
  return before?.group === group || (before !== undefined && group === "") ? [] : [{ label: group, kind: vscode.QuickPickItemKind.Separator, act: "nothing" }];
}

/** Why something was refused, in as many lines as it takes: one would be cut off. */
function said(wrong: string): Item[] {
  return wrapped(unmarked(wrong)).map((line, i) => ({ label: `${i === 0 ? "$(error)" : "$(blank)"} ${line}`, act: "nothing", alwaysShow: true }));
}

/** A value for a field; undefined where the user goes back. */
async function valueOf(title: string, field: Field): Promise<string | undefined> {
  const options = { title: `${title}: ${field.label.trim()}`, placeHolder: field.detail };
  if (field.choices) {
    const picked = await vscode.window.showQuickPick(field.partOf === undefined ? [...field.choices] : [...field.choices, LEAVE_OUT], options);
    return picked === LEAVE_OUT ? "" : picked;
  }
  const check = field.check;
  return vscode.window.showInputBox({ ...options, prompt: field.detail, value: field.value, ...(check ? { validateInput: check } : {}) });
}

function choose(title: string, items: readonly Item[], stays: boolean): Promise<Item | undefined> {
  const pick = vscode.window.createQuickPick<Item>();
  pick.title = title;
  pick.items = items;
  pick.placeholder = "Choose a field to change it";
  pick.matchOnDetail = true;
  pick.ignoreFocusOut = stays; // a message elsewhere does not take away what is to be read
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
