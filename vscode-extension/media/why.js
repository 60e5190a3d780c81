// Why the statement under the cursor is slow: lines of the server, and what its device does over time.
(() => {
  const vscode = acquireVsCodeApi();
  const root = document.getElementById("why");
  const SVG = "http://www.w3.org/2000/svg";
  const ROOFS = { compute: "compute", memory: "memory", latency: "latency", link: "link", host: "host" };
  const HEIGHT = { computes: [0, 22], communicates: [24, 10], waits_for_host: [36, 4] };
  const DOES = { computes: "computes", communicates: "communicates", waits_for_host: "waits for its host" };

  window.addEventListener("message", ({ data }) => {
    if (data.type === "show") show(data.why);
    else if (data.type === "nothing") root.replaceChildren(lines("p", [data.text], "nothing"));
  });

  function show(why) {
    const parts = [
      section("", [...(why.roof === null ? [] : [roofs(why.roof)]), list(why.why), ...(why.shown ? [lines("p", [why.shown], "aside")] : [])]),
      section("Waits for it", [why.waits.length > 0 ? list(why.waits) : lines("p", [why.waits === null || why.waited_s === null ? "not followed in a program of this length" : "no device"])]),
      section("To be won", [lines("p", [why.won || "not followed in a program of this length"]), ...advice(why)]),
    ];
    const body = element("div", "", "parts");
    body.append(...parts);
    root.replaceChildren(lines("h1", [why.stale ? `${why.name}, of an earlier version` : why.name]), lane(why), body);
  }

  function section(title, content) {
    const made = element("section");
    if (title) made.append(element("h2", title));
    made.append(...content);
    return made;
  }

  /** The one that bounds the time is marked by more than its colour. */
  function roofs(roof) {
    const made = element("ul", "", "roofs");
    made.setAttribute("aria-label", "bound by");
    for (const [name, word] of Object.entries(ROOFS)) {
      const item = element("li", word);
      if (name === roof) item.setAttribute("aria-current", "true");
      made.append(item);
    }
    return made;
  }

  function advice(why) {
    return why.advice.map((text) => {
      const button = element("button", text);
      button.addEventListener("click", () => vscode.postMessage({ type: "advice" }));
      return button;
    });
  }

  /** What the device does, part by part, and when the statement runs. */
  function lane({ lane: found, start_s, duration_s, latency_s }) {
    const parts = found.computes.length;
    const svg = drawn("svg", { viewBox: `0 0 ${parts} 40`, preserveAspectRatio: "none", class: "lane", role: "img" });
    const kinds = Object.keys(HEIGHT).filter((kind) => found[kind].some((share) => share > 0));
    svg.setAttribute("aria-label", `Device ${found.device}: ${kinds.map((kind) => `${DOES[kind]} ${percent(found[kind])} of the time`).join(", ")}`);
    for (const kind of kinds) {
      const [top, height] = HEIGHT[kind];
      found[kind].forEach((share, x) => share > 0 && svg.append(drawn("rect", { x, width: 1, y: top + height * (1 - share), height: height * share, class: kind })));
    }
    const scale = latency_s > 0 ? parts / latency_s : 0;
    svg.append(drawn("rect", { x: start_s * scale, width: Math.max(0.5, duration_s * scale), y: 0, height: 40, class: "here" }));
    svg.addEventListener("click", () => vscode.postMessage({ type: "timeline" }));
    const made = element("figure");
    made.append(element("figcaption", svg.getAttribute("aria-label")), svg);
    return made;
  }

  function percent(shares) {
    return `${Math.round((100 * shares.reduce((sum, share) => sum + share, 0)) / shares.length)} %`;
  }

  function list(texts) {
    const made = element("ul");
    for (const text of texts) made.append(lines("li", [text]));
    return made;
  }

  /** Markdown as the server writes it: code, emphasis, and lines of the program as links. */
  function lines(name, texts, kind = "") {
    const made = element(name, "", kind);
    for (const text of texts) {
      for (const piece of text.split(/(`[^`]*`|\*\*[^*]*\*\*|\*[^*]*\*|\[line \d+\]\(#L\d+\))/)) {
        const line = /^\[line (\d+)\]/.exec(piece);
        if (line) {
          const button = element("button", `line ${line[1]}`);
          button.addEventListener("click", () => vscode.postMessage({ type: "goTo", line: Number(line[1]) }));
          made.append(button);
        } else if (piece.startsWith("`")) made.append(element("code", piece.slice(1, -1)));
        else if (piece.startsWith("**")) made.append(element("strong", piece.slice(2, -2)));
        else if (/^\*.*\*$/.test(piece)) made.append(...lines("em", [piece.slice(1, -1)]).childNodes);
        else made.append(piece);
      }
    }
    return made;
  }

  function element(name, text = "", kind = "") {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function drawn(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  vscode.postMessage({ type: "ready" });
})();
