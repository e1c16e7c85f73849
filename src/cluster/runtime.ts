import { readFileSync } from 'node:fs';

// The bundler looks for `new URL('…', import.meta.url)` and copies each of these files beside the bundle.
const read = (url: URL) => readFileSync(url, 'utf8');

/** The shell code that runs on the cluster, by file name. */
export const RUNTIME = {
  trust: read(new URL('../runtime/trust.sh', import.meta.url)),
  frame: read(new URL('../runtime/frame.sh', import.meta.url)),
  lock: read(new URL('../runtime/lock.sh', import.meta.url)),
  probe: read(new URL('../runtime/probe.sh', import.meta.url)),
  stage: read(new URL('../runtime/stage.sh', import.meta.url)),
  change: read(new URL('../runtime/change.sh', import.meta.url)),
  submit: read(new URL('../runtime/submit.sh', import.meta.url)),
  release: read(new URL('../runtime/release.sh', import.meta.url)),
  checkpoints: read(new URL('../runtime/checkpoints.sh', import.meta.url)),
  cancel: read(new URL('../runtime/cancel.sh', import.meta.url)),
  survey: read(new URL('../runtime/survey.sh', import.meta.url)),
  audit: read(new URL('../runtime/audit.sh', import.meta.url)),
  journal: read(new URL('../runtime/journal.sh', import.meta.url)),
  layout: read(new URL('../runtime/layout.sh', import.meta.url)),
  'job-name': read(new URL('../runtime/job-name.sh', import.meta.url)),
  queue: read(new URL('../runtime/queue.sh', import.meta.url)),
  ledger: read(new URL('../runtime/ledger.sh', import.meta.url)),
  job: read(new URL('../runtime/job.sh', import.meta.url)),
} as const;
