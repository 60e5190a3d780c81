// Many files as one: a line of JSON with their names and sizes, then their contents. Written by build.mjs, read by the
// worker, which leaves the contents where they are: unpacking an archive by Python takes far longer.

/** @typedef {{ mkdirTree(path: string): void, writeFile(path: string, contents: Uint8Array, options: { canOwn: boolean }): void, utime(path: string, accessed: number, modified: number): void }} FileSystem */

/** When all files were last modified, in milliseconds: what the snapshot's Python made of some is not to seem older. */
const MODIFIED = 0;

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
  let made = ""; // to make a folder that is there takes longer than to write a file
  for (const [name, size] of JSON.parse(new TextDecoder().decode(whole.subarray(0, end)))) {
    const inside = `${folder}/${name}`.replace(/\/[^/]*$/, "");
    if (inside !== made) system.mkdirTree((made = inside));
    system.writeFile(`${folder}/${name}`, whole.subarray(at, at + size), { canOwn: true });
    system.utime(`${folder}/${name}`, MODIFIED, MODIFIED);
    at += size;
  }
}
