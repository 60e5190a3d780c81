// A folder in memory, for a workbench without a machine behind it: `vscode-test-web://mount/` holds what files.json names.
const vscode = require("vscode");

exports.activate = async (context) => {
  const answer = await fetch(vscode.Uri.joinPath(context.extensionUri, "files.json").toString(true));
  const files = new Map(Object.entries(await answer.json()).map(([name, text]) => [`/${name}`, new TextEncoder().encode(text)]));
  const changed = new vscode.EventEmitter();
  const missing = (uri) => {
    throw vscode.FileSystemError.FileNotFound(uri);
  };
  context.subscriptions.push(
    vscode.workspace.registerFileSystemProvider("vscode-test-web", {
      onDidChangeFile: changed.event,
      watch: () => ({ dispose() {} }),
      stat: (uri) =>
        uri.path === "/" ? { type: vscode.FileType.Directory, ctime: 0, mtime: 0, size: 0 } : files.has(uri.path) ? { type: vscode.FileType.File, ctime: 0, mtime: 0, size: files.get(uri.path).length } : missing(uri),
      readDirectory: () => [...files.keys()].map((path) => [path.slice(1), vscode.FileType.File]),
      readFile: (uri) => files.get(uri.path) ?? missing(uri),
      writeFile: (uri, content) => void files.set(uri.path, content),
      createDirectory() {},
      delete: (uri) => void files.delete(uri.path),
      rename() {},
    }),
  );
};
