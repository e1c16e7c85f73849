/** Where in a file a problem is; line and column count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/**
 * Something a person has to know and can act on: the message says what happened, where, and what to do about it, in one
 * paragraph. Everything else that is thrown is a fault of this program.
 */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly place: Place | undefined;

  constructor(message: string, place?: Place) {
    super(place ? `${place.file}:${place.line}:${place.column}: ${message}` : message);
    this.place = place;
  }
}

/** The text of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
