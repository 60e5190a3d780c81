// Elements. Text enters only as text: names come from programs, and programs from anywhere.

type Child = Node | string;

/** An element with attributes and children; strings become text. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function button(text: string, title: string, act: () => void, label = title): HTMLButtonElement {
  const made = element("button", { type: "button", title, "aria-label": label }, text);
  made.addEventListener("click", act);
  return made;
}
