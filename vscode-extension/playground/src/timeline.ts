// In the frame of the timeline: the view takes the page around it for an editor.

const kept: { now: unknown } = { now: undefined };
Object.assign(globalThis, {
  acquireVsCodeApi: () => ({
    postMessage: (message: unknown) => parent.postMessage(message, location.origin),
    getState: () => kept.now,
    setState: (state: unknown) => void (kept.now = state),
  }),
});
export {};
