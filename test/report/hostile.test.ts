// Text from outside stays text in everything that we show on GitHub.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { marked } from 'marked';
import { askedOf, commandOfComment } from '../../src/action/comment-command.ts';
import { AUDIT_MARKER, renderAudit } from '../../src/audit/render.ts';
import type { Audit } from '../../src/audit/report.ts';
import { Problem } from '../../src/base/problem.ts';
import { formatJobName, parseJobName } from '../../src/chain/job-name.ts';
import { decodeAnswer } from '../../src/cluster/answers.ts';
import { commandsFor } from '../../src/cluster/programs/submit.ts';
import { parseSource } from '../../src/experiment/document.ts';
import { experimentFrom } from '../../src/experiment/experiment.ts';
import { experimentId, isExperimentId } from '../../src/experiment/identity.ts';
import { parseOverrides } from '../../src/experiment/overrides.ts';
import { parseRepoConfig } from '../../src/experiment/repo-config.ts';
import { block, choicesText, code, plain } from '../../src/report/markdown.ts';
import { markerOf, renderComment, renderLine, renderSummary, statusDescription } from '../../src/report/render.ts';
import { PROBLEM_MARKER, renderHelp, renderProblem } from '../../src/report/replies.ts';
import type { Report } from '../../src/report/report.ts';
import { HOSTILE, UNSEEN } from '../support/hostile.ts';

const ID = 'smoke-1a2b3c4d5e6f';
const COMMIT = '1a2b3c4d5e6f'.padEnd(40, 'a');
const RUN = 'https://github.com/lab/nano/actions/runs/1';
/** Elements that we write ourselves. Everything else would come from the text. */
const ELEMENTS = 'a blockquote br code details em h3 li p pre strong summary table tbody td th thead tr ul'.split(' ');

/** Renders Markdown as GitHub does, and checks that nothing in it comes from a text from outside. */
function checkText(markdown: string, about: string, isRendered: boolean, marker?: string): void {
  const unseen = UNSEEN.exec(markdown);
  assert.equal(unseen && markdown.slice(Math.max(0, unseen.index - 100), unseen.index + 20), null, `${about}: characters that nobody sees`);
  assert.ok(marker === undefined || markdown.startsWith(marker), `${about}: the marker`);
  if (marker !== undefined) assert.ok(Buffer.byteLength(markdown) <= 65_536, `${about}: ${Buffer.byteLength(markdown)} bytes`);
  // The renderer takes minutes for long runs of one character. Short texts of the same kind are in the corpus, too.
  if (!isRendered) return;
  const html = (
    marked.parse(marker === undefined ? markdown : markdown.replace(marker, ''), { gfm: true, async: false }) as string
  ).replace(/<code\b[^>]*>[^<]*<\/code>/g, '<code></code>');
  for (const [tag, name = ''] of html.matchAll(/<\/?([a-z!][a-z0-9-]*)[^>]*>/gi)) {
    assert.ok(ELEMENTS.includes(name.toLowerCase()), `${about}: the element ${tag.slice(0, 200)}`);
  }
  for (const [, address = ''] of html.matchAll(/\b(?:href|src)="([^"]*)"/g)) {
    assert.match(address, /^https:\/\/github\.com\/lab\/nano\/(actions\/runs\/1|commit\/[0-9a-f]{40})$/, `${about}: a link`);
  }
  const text = html.replace(/<[^>]*>/g, ' ');
  assert.doesNotMatch(text, /(^|[^\w])@[a-z0-9]/i, `${about}: a mention`);
}

/** A report whose every text is `text`, as far as schemas let it through. */
function reportWith(text: string): Report {
  const task = { jobNumber: 1, cell: undefined, jobId: '4711', after: [] };
  return {
    ...{
      command: 'status',
      state: 'failed',
      id: ID,
      name: text,
      commit: COMMIT,
      subject: text,
      path: text,
      overrides: [text, `a=${text}`],
    },
    cluster: text,
    slurm: [
      ['partition', text],
      ['gres', text],
      ['nodes', text],
    ],
    cells: [0, 1].map((number) => ({ number, choices: { [text]: text, lr: text }, nSteps: 10 })),
    ...{ jobCount: 2, gpuHours: undefined, jobs: [{ ...task, state: text }] },
    // No path holds a NUL: parseManifest refuses it.
    places: { experiment: `/w/${text.replaceAll('\0', '')}`, checkpoints: `/ckpt/${text}` },
    wandb: { group: text, runs: [text] },
    launcher: { actor: text, runUrl: RUN, repository: 'lab/nano', at: text, pullRequest: 7 },
    later: [{ actor: text, runUrl: text, at: text, command: 'extend', jobNumbers: [3] }],
    pullRequests: [7],
    status: {
      ...{ state: 'failed', running: undefined, next: undefined, at: 1_800_000_000, lastJob: 2, wantedJobs: 2, extendBy: 1 },
      jobs: [
        {
          ...{ ...task, alive: true },
          tasks: [
            { state: { kind: 'pending', reason: text }, count: 1 },
            { state: { kind: 'running', node: text, since: 1_799_999_000 }, count: 1 },
            { state: { kind: 'cancelled', by: text }, count: 1 },
            { state: { kind: 'failed', signal: text }, count: 1 },
            { state: { kind: 'unknown', why: { kind: 'slurm-state', state: text } }, count: 1 },
            { state: { kind: 'unknown', why: { kind: 'no-end', started: 1_799_999_000, host: text } }, count: 1 },
          ],
        },
      ],
      cells: [0, 1].map((number) => ({
        ...{ number, newest: text, stepsDone: 1, nSteps: 10, complete: false, stoppedLater: false, failed: true, log: '1_4711_0.out' },
        ...{ secondsLeft: 5, jobsShort: 1 },
        current: { jobNumber: 1, state: { kind: 'failed', signal: text } },
      })),
    },
    logs: [{ file: '1_4711_0.out', text: text.slice(-4000) }],
    commands: commandsFor(`/w/${text.replaceAll('\0', '')}`, ID, [{ ...task, state: text }]),
    submissions: [
      {
        jobNumber: 1,
        cell: undefined,
        environment: { A: text.replaceAll('\0', '') },
        arguments: [`--comment=${text.replaceAll('\0', '')}`],
      },
    ],
    notes: [text],
  };
}

function auditWith(text: string): Audit {
  return {
    ...{ id: ID, experimentDirectory: `/w/${text}`, saveDirectory: `/ckpt/${text}`, notes: [text] },
    verdict: { kind: 'changed', changed: [text], missing: [text] },
    identity: {
      ...{ name: text, commit: COMMIT, subject: text, path: text, attempt: 2, overrides: [text], repository: 'lab/nano', cluster: text },
      wandb: { group: text, runs: [text] },
    },
    launches: [
      {
        ...{ launch: 1, command: 'launch', actor: text, runUrl: RUN, pullRequest: 7, at: text, jobNumbers: [1], overrides: [text] },
        jobs: [{ jobNumber: 1, jobId: '4711' }],
      },
      {
        ...{ launch: 2, command: 'extend', actor: text, runUrl: text, pullRequest: undefined, at: text, jobNumbers: [2] },
        overrides: [],
        jobs: [],
      },
    ],
    cells: [
      {
        ...{ cell: 0, choices: { [text]: text }, nSteps: 10, unaccounted: [{ name: text, number: 5, why: text }] },
        tasks: [
          {
            ...{ launch: 1, jobNumber: 1, jobId: '4711', taskId: '4712', restart: 0, host: text, started: text, ended: text },
            ...{ outcome: 'ended', resumeStep: -1, checkpoints: [{ first: 1, last: 5, stride: 2 }], count: 3 },
          },
        ],
      },
    ],
    reachability: { reachable: true, branches: [text], tags: [text], pullRequests: [7], unknown: undefined },
  };
}

const COST = { experiments: 1, filesHashed: 1, bytesHashed: 1, clusterSeconds: 1, seconds: 1 };

for (const [what, text] of HOSTILE) {
  test(`stays text: ${what}`, { timeout: 120_000 }, () => {
    const check = (markdown: string, about: string, marker?: string) => checkText(markdown, about, text.length < 5000, marker);
    check(`a ${plain(text)} b`, 'plain');
    check(`| ${code(text)} |\n| --- |\n| ${code(`x${text}`)} |`, 'code');
    check(block(text.slice(0, 20_000), 'sh'), 'block');
    check(choicesText({ [text.slice(0, 1000)]: text }), 'choices');
    check(renderProblem(`/launch ${text}`, [text, text]), 'a problem', PROBLEM_MARKER);
    check(renderHelp(text.slice(0, 20_000), [[text.slice(0, 1000), 'form']]).replace(/^<!--.*\n/, ''), 'the help');
    const report = reportWith(text);
    check(renderComment(report), 'a report', markerOf(ID));
    assert.ok(renderSummary(report).length > 0);
    check(`${AUDIT_MARKER}\n\n${renderAudit({ audits: [auditWith(text)], cost: COST }, 65_000)}`, 'an audit', AUDIT_MARKER);
    const two = renderAudit({ audits: [auditWith(text), { ...auditWith(text), id: `${ID}-a2`, identity: undefined }], cost: COST }, 65_000);
    check(`${AUDIT_MARKER}\n\n${two}`, 'two audits', AUDIT_MARKER);
    assert.ok(renderLine(report).startsWith(ID) && statusDescription(report).length > 0);
  });

  test(`is refused or harmless in a name, an override, a comment, a job: ${what}`, () => {
    const orProblem = <T>(act: () => T): T | undefined => {
      try {
        return act();
      } catch (error) {
        assert.ok(error instanceof Problem, String(error));
        assert.ok(error.message.length > 10);
        return undefined;
      }
    };
    // A name is never empty.
    const id = experimentId(text || 'x', COMMIT);
    assert.ok(isExperimentId(id), id);
    const name = { experimentId: id, launch: 1, nonce: '0', jobNumber: 1, cell: undefined };
    assert.deepEqual(parseJobName(formatJobName(name)), name);
    assert.ok(parseJobName(text) === undefined || what === 'a job name');
    for (const one of [text, `a=${text}`, `a="${text}"`, `+x.y=${text}`, `${text}=1`]) {
      const overrides = orProblem(() => parseOverrides(one)) ?? [];
      const source = parseSource('x.yaml', 'run: x\nsave: {path: /ckpt}\na: 1\n');
      orProblem(() => experimentFrom(source, COMMIT, parseRepoConfig(''), overrides));
    }
    for (const command of ['launch', 'cancel', 'extend', 'status', 'audit'] as const) orProblem(() => askedOf(command, text));
    for (const body of [text, `/${text}`, `/launch ${text}`, `/status ${text}`]) orProblem(() => commandOfComment(body));
    orProblem(() => parseSource('x.yaml', text));
    orProblem(() => parseRepoConfig(`experiments: ${JSON.stringify(text)}\n`));
    for (const key of ['name', 'run', 'setup', 'cluster']) {
      const yaml = `${JSON.stringify({ run: 'x', save: { path: '/ckpt' }, [key]: text })}\n`;
      orProblem(() => experimentFrom(parseSource('x.yaml', yaml), COMMIT, parseRepoConfig(''), []));
    }
    assert.throws(() => decodeAnswer({ known: ['a'] }, { key: text, values: [] }), /^Error: unknown answer/);
  });
}
