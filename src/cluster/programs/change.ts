import type { AnswerTable } from '../answers.ts';
import { FRAME_ANSWERS } from '../shell.ts';

/** The pieces of src/runtime that a program needs which changes the jobs of an experiment. */
export const CHANGE_PARTS = ['lock', 'layout', 'job-name', 'queue', 'ledger', 'change'] as const;

export const CHANGE_ANSWERS = {
  ...FRAME_ANSWERS,
  waiting: ['holder'],
} as const satisfies AnswerTable;
