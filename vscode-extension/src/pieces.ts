// A timeline, which the server answers in pieces.

export interface TimelinePiece {
  version: number;
  next_event: number | null;
  [name: string]: unknown;
}

/** All pieces, of one version of the text: from the start again where it was edited in between. */
export async function allPieces(ask: (firstEvent: number) => Promise<TimelinePiece>): Promise<TimelinePiece[]> {
  const pieces: TimelinePiece[] = [];
  for (let first: number | null = 0; first !== null; ) {
    const piece: TimelinePiece = await ask(first);
    if (pieces.length > 0 && piece.version !== pieces[0]?.version) return allPieces(ask);
    pieces.push(piece);
    first = piece.next_event;
  }
  return pieces;
}
