// What a run of the program gave: a table over the page.

export interface Run {
  function: string;
  seed: number;
  random: string[];
  outputs: { name: string; dtype: string; shape: number[]; device: number | null; mean: number | null; largest: number | null; values: string | null }[];
}

export function showValues({ function: name, seed, random, outputs }: Run): void {
  const dialog = document.getElementById("values") as HTMLDialogElement;
  const inputs = random.length === 0 ? "" : `, random with seed ${seed}: ${random.slice(0, 8).map((each) => `%${each}`).join(", ")}${random.length > 8 ? ", …" : ""}`;
  dialog.querySelector("p")!.textContent = `@${name} by the reference executor${inputs}`;
  const number = (value: number | null): string => (value === null ? "–" : String(Number(value.toPrecision(4))));
  const rows = outputs.map(({ name: result, dtype, shape, device, mean, largest, values }) => {
    const row = document.createElement("tr");
    const cells = [`%${result}`, dtype, `(${shape.join(", ")})`, device === null ? "host" : String(device), number(mean), number(largest), values ?? ""];
    row.replaceChildren(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    return row;
  });
  dialog.querySelector("tbody")!.replaceChildren(...rows);
  dialog.showModal();
}
