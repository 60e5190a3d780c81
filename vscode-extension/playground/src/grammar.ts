// The extension's own grammar in Monaco: lines are cut into scopes by TextMate's engine.

import * as monaco from "monaco";
import { createOnigScanner, createOnigString, loadWASM } from "vscode-oniguruma";
import { INITIAL, Registry, type IRawGrammar, type StateStack } from "vscode-textmate";

/** Resolves to what colours lines of a language by the grammar at an address. */
export async function grammar(address: string, engine: string): Promise<monaco.languages.TokensProvider> {
  const [raw, wasm] = await Promise.all([fetch(address).then((answer) => answer.json() as Promise<IRawGrammar>), fetch(engine).then((answer) => answer.arrayBuffer())]);
  await loadWASM(wasm);
  const registry = new Registry({
    onigLib: Promise.resolve({ createOnigScanner, createOnigString }),
    loadGrammar: (scope) => Promise.resolve(scope === raw.scopeName ? raw : null),
  });
  const loaded = await registry.loadGrammar(raw.scopeName);
  if (loaded === null) throw new Error(`${address} holds no grammar`);
  return {
    getInitialState: () => new State(INITIAL),
    tokenize: (line, state) => {
      const { tokens, ruleStack } = loaded.tokenizeLine(line, (state as State).stack, 500);
      return { tokens: tokens.map(({ startIndex, scopes }) => ({ startIndex, scopes: scopes.at(-1)! })), endState: new State(ruleStack) };
    },
  };
}

class State implements monaco.languages.IState {
  constructor(readonly stack: StateStack) {}
  clone(): State {
    return new State(this.stack);
  }
  equals(other: monaco.languages.IState): boolean {
    return other instanceof State && other.stack.equals(this.stack);
  }
}
