import type { AuditReport } from '../audit/report.ts';
import type { Report } from '../report/report.ts';

/** What a command gives, for each experiment that it was about. */
export type Outcome =
  | { readonly kind: 'chain'; readonly report: Report }
  | { readonly kind: 'audit'; readonly report: AuditReport }
  /** Something went wrong with one of several experiments; the others go on. */
  | { readonly kind: 'problem'; readonly error: unknown };
