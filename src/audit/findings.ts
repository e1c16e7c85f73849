/** What a comparison finds, one line each. */
export interface Findings {
  /** Something does not match. */
  readonly changed: readonly string[];
  /** Something is not there to be compared. */
  readonly missing: readonly string[];
  /** Facts that do not speak against the experiment. */
  readonly notes: readonly string[];
}

export function findings(part: Partial<Findings>): Findings {
  return { changed: [], missing: [], notes: [], ...part };
}

export function combine(all: readonly Findings[]): Findings {
  return {
    changed: all.flatMap(({ changed }) => changed),
    missing: all.flatMap(({ missing }) => missing),
    notes: [...new Set(all.flatMap(({ notes }) => notes))],
  };
}
