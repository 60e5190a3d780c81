// Environments as the Python extension answers them: a path that is chosen, and what is in it when it is resolved.
const { EventEmitter, Uri } = require("vscode");

exports.activate = () => {
  const changed = new EventEmitter();
  let chosen;
  return {
    environments: {
      getActiveEnvironmentPath: () => ({ id: chosen ?? "none", path: chosen ?? "python" }),
      resolveEnvironment: async ({ path }) => (path === chosen ? { id: path, path, executable: { uri: Uri.file(`${path}/bin/python`) } } : undefined),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
    choose(folder) {
      chosen = folder;
      changed.fire({ id: folder, path: folder });
    },
  };
};
