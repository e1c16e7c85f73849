/** A place in a file. Line and column count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/**
 * An error that a person can act on. Its message says in one paragraph what happened, where, and what to do about it. Any other
 * error is a fault of this program.
 */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly place: Place | undefined;

  constructor(message: string, place?: Place) {
    super(place ? `${place.file}:${place.line}:${place.column}: ${message}` : message);
    this.place = place;
  }
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
