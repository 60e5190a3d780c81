// The environment that the user has chosen in the Python extension, where that is installed. It is not needed.

import * as vscode from "vscode";

// The part of the Python extension's public interface that is used here.
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(path: { readonly path: string }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function api(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
  try {
    const found = extension && (extension.isActive ? extension.exports : await extension.activate());
    return found?.environments ? found : undefined;
  } catch {
    return undefined;
  }
}

export const pythonExtension = {
  /** The chosen environment's Python; undefined where there is none. */
  async interpreter(): Promise<string | undefined> {
    const found = await api();
    if (found === undefined) return undefined;
    const resource = vscode.workspace.workspaceFolders?.[0]?.uri;
    const environment = await found.environments.resolveEnvironment(found.environments.getActiveEnvironmentPath(resource));
    return environment?.executable.uri?.fsPath;
  },

  /** Tell when the user chooses another one. */
  async onDidChange(tell: () => void): Promise<vscode.Disposable | undefined> {
    return (await api())?.environments.onDidChangeActiveEnvironmentPath(tell);
  },
};
