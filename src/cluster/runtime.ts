import { readFileSync } from 'node:fs';

// The bundler turns each of these into a file beside the bundle; the form `new URL('…', import.meta.url)` is what it looks for.
const read = (url: URL) => readFileSync(url, 'utf8');

/** The shell that runs on the cluster, by name. */
export const RUNTIME = {
  frame: read(new URL('../runtime/frame.sh', import.meta.url)),
  lock: read(new URL('../runtime/lock.sh', import.meta.url)),
  probe: read(new URL('../runtime/probe.sh', import.meta.url)),
  stage: read(new URL('../runtime/stage.sh', import.meta.url)),
  change: read(new URL('../runtime/change.sh', import.meta.url)),
  submit: read(new URL('../runtime/submit.sh', import.meta.url)),
  checkpoints: read(new URL('../runtime/checkpoints.sh', import.meta.url)),
  cancel: read(new URL('../runtime/cancel.sh', import.meta.url)),
  survey: read(new URL('../runtime/survey.sh', import.meta.url)),
  audit: read(new URL('../runtime/audit.sh', import.meta.url)),
  journal: read(new URL('../runtime/journal.sh', import.meta.url)),
  job: read(new URL('../runtime/job.sh', import.meta.url)),
} as const;
