// What the workspaces of the tests hold.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { PROJECT } from "./workbench.mjs";

const example = (name) => readFileSync(join(PROJECT, "examples", name), "utf8");

export const BROKEN = `func @main(%x: Tensor[Float32, (4, 4), 1]) {
  %y = Relu(%nothing)
  return %y
}
`;

/** Two functions that can be entered; one has a host value, the other waits. */
const TWO = `func @first(%x: Tensor[Float32, (512, 512), 1]) {
  %s = Shape(%x)
  %y = Relu(%x)
  return %y, %s
}

func @main(%x: Tensor[Float32, (512, 512), 1]) {
  %y = MatMul(%x, %x)
  %z: D2 = Send[device = 2](%y)
  %o = Relu(%z)
  return %o
}
`;

/** What two devices do alike is written for each of them. */
const TWO_DEVICES = `func @main(
  %w_1: Tensor[Float32, (512, 512), 1],
  %w_2: Tensor[Float32, (512, 512), 2],
  %b_1: Tensor[Float32, (512,), 1],
  %b_2: Tensor[Float32, (512,), 2],
  %x_1: Tensor[Float32, (512, 512), 1],
  %x_2: Tensor[Float32, (512, 512), 2]
) {
  %h_1 = Gemm(%x_1, %w_1, %b_1)
  %h_2 = Gemm(%x_2, %w_2, %b_2)
  %a_1 = Relu(%h_1)
  %a_2 = Relu(%h_2)
  %all_1, %all_2 = MPIAllreduce(%a_1, %a_2)
  return %all_1, %all_2
}
`;

/** Markdown with a program in a fence, and a line that is none. */
const NOTES = `# Notes

func is a word here.

~~~dir {.listing}
func @main(%x: Tensor[Float32, (4, 4), 1]) {
  %y = Relu(%x)
  return %y
}
~~~

func is a word again.
`;

const HOSTILE_NAME = `"><img src=x onerror=alert(1)>`;
/** A file's name that a careless page would run. */
export const HOSTILE_FILE = '"><img src=x onerror=alert(1)>.dir';
/** Texts that a careless page would run: in comments, strings and names of values. */
export const HOSTILE = `// </script><script>document.title = "owned"</script> ${HOSTILE_NAME}
func @main(%x: Tensor[Float32, (512, 512), 1]) {
  %script.alert-1 = MatMul(%x, %x) // <b id="owned">${HOSTILE_NAME}</b>
  %y: D2 = Send[device = 2](%script.alert-1)
  return %y
}
`;

/** A program on one device, and its shards on two, of which the first forgets to add up; `SETTINGS` names the former. */
const MODEL = `func @main(%x: Tensor[Float32, (8, 4), 1], %v: Tensor[Float32, (4, 2), 1]) {
  %y = MatMul(%x, %v)
  %p = Relu(%y)
  return %p
}
`;
const SHARDS = `func @main(
  %x_1: Tensor[Float32, (8, 2), 1], %x_2: Tensor[Float32, (8, 2), 2],
  %v_1: Tensor[Float32, (2, 2), 1], %v_2: Tensor[Float32, (2, 2), 2]
) {
  %y_1 = MatMul(%x_1, %v_1)
  %y_2 = MatMul(%x_2, %v_2)
  %p_1 = Relu(%y_1)
  return %p_1
}

func @main.scatter(%x: Tensor[Float32, (8, 4), 1], %v: Tensor[Float32, (4, 2), 1]) {
  %x_1, %x_2 = MPIScatter[devices = [1, 2], axis = 1](%x)
  %v_1, %v_2 = MPIScatter[devices = [1, 2], axis = 0](%v)
  return %x_1, %x_2, %v_1, %v_2
}
`;
const SETTINGS = 'sequential = "model.dir"\n';

/** Files by path. */
export function programs() {
  return {
    "mlp.dir": example("mlp_pipeline.dir"),
    "sequential.dir": example("mlp_sequential.dir"),
    "swapped.dir": example("mlp_pipeline_swapped.dir"),
    "mesh.dir": example("mlp_mesh.dir"),
    "broken.dir": BROKEN,
    [HOSTILE_FILE]: HOSTILE,
    "notes.md": NOTES,
    "two.dir": TWO,
    "large.dir": TWO,
    "two.devices.dir": TWO_DEVICES,
    "unformatted.dir": "func @main(%a: Tensor[Float32, (4, 4), 1]) {\n %b=Relu( %a )\n      return %b\n}\n",
    "named.dir": "func @main(%x: Tensor[Float32, (B, 4), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n",
    "proof/distir.toml": SETTINGS,
    "proof/model.dir": MODEL,
    "proof/shards.dir": SHARDS,
    "größer als/prög 名.dir": example("mlp_pipeline.dir"),
  };
}

/** Make a folder a git repository with all that it holds committed. */
export function commit(folder) {
  const git = (...words) => execFileSync("git", ["-C", folder, "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false", ...words]);
  git("init", "--quiet", "--initial-branch", "master");
  git("add", "--all");
  git("commit", "--quiet", "--message", "all");
}
