// Many files as one: a line of JSON with their names and sizes, then their contents. Written by build.mjs, read by the
// worker, which leaves the contents where they are: unpacking an archive by Python takes far longer.

/** @typedef {{ mkdirTree(path: string): void, writeFile(path: string, contents: Uint8Array, options: { canOwn: boolean }): void }} FileSystem */

/**
 * @param {[name: string, contents: Uint8Array][]} files
 * @returns {Uint8Array}
 */
export function packed(files) {
  const names = new TextEncoder().encode(`${JSON.stringify(files.map(([name, contents]) => [name, contents.length]))}\n`);
  const whole = new Uint8Array(files.reduce((size, [, contents]) => size + contents.length, names.length));
  whole.set(names);
  let at = names.length;
  for (const [, contents] of files) {
    whole.set(contents, at);
    at += contents.length;
  }
  return whole;
}

/**
 * Put the files into a folder of Python's file system, which owns `whole` from now on.
 *
 * @param {Uint8Array} whole
 * @param {FileSystem} system
 * @param {string} folder
 */
export function place(whole, system, folder) {
  const end = whole.indexOf(10);
  let at = end + 1;
  for (const [name, size] of JSON.parse(new TextDecoder().decode(whole.subarray(0, end)))) {
    system.mkdirTree(`${folder}/${name}`.replace(/\/[^/]*$/, ""));
    system.writeFile(`${folder}/${name}`, whole.subarray(at, at + size), { canOwn: true });
    at += size;
  }
}
