// A repository, a pull request and an experiment to launch, on a real cluster and the GitHub stand-in.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import examples from '@octokit/webhooks-examples' with { type: 'json' };
import { type Association, type Comment, type GitHub, type Issue, type PullRequest, startGitHub } from '../github/server.ts';
import { type ActionResult, type ActionRun, ROOT, runAction } from './action.ts';

/** What script/cluster wrote into DIR/env. */
export interface ClusterEnvironment {
  readonly CLUSTER_DIR: string;
  readonly CLUSTER_HOST: string;
  readonly CLUSTER_PORT: string;
  readonly CLUSTER_USER: string;
  readonly CLUSTER_KEY: string;
  readonly CLUSTER_KNOWN_HOSTS: string;
  readonly CLUSTER_WORKDIR: string;
  readonly CLUSTER_SAVE: string;
  readonly SLURM_CONF: string;
}

/** @param directory of script/cluster up */
export function readCluster(directory: string): ClusterEnvironment {
  const lines = readFileSync(join(directory, 'env'), 'utf8').trim().split('\n');
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  ) as unknown as ClusterEnvironment;
}

/** Runs a Slurm command as the machine's root, who is an operator of the cluster. */
export function slurm(cluster: ClusterEnvironment, command: string, ...args: string[]): string {
  return execFileSync(command, args, { encoding: 'utf8', env: { ...process.env, SLURM_CONF: cluster.SLURM_CONF } }).trim();
}

/** Runs a shell line as the cluster's ordinary account, in its home, without its start-up files. */
export function asUser(cluster: ClusterEnvironment, line: string): string {
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', SLURM_CONF: cluster.SLURM_CONF, USER: cluster.CLUSTER_USER };
  const { status, stdout, stderr } = spawnSync(
    'setpriv',
    [`--reuid=${cluster.CLUSTER_USER}`, '--regid=' + cluster.CLUSTER_USER, '--clear-groups', 'bash', '--noprofile', '--norc', '-c', line],
    {
      encoding: 'utf8',
      env,
      cwd: '/',
    },
  );
  if (status !== 0) throw new Error(`as ${cluster.CLUSTER_USER}: ${line}: ${stderr}${stdout}`);
  return stdout.trim();
}

/**
 * Puts a script in front of Slurm commands, to inject a fault into the real ones: each body runs with the real command in
 * $REAL and the number of sbatch calls so far, this one included, in $CALL, and goes on to the real command.
 * @returns the prelude that makes a login find them
 */
export function inFront(cluster: ClusterEnvironment, name: string, bodies: Readonly<Record<string, string>>): string {
  const directory = `${cluster.CLUSTER_DIR}/home/front-${process.pid}-${name}`; // goes with the cluster
  asUser(cluster, `mkdir -p ${directory}`);
  for (const [command, body] of Object.entries(bodies)) {
    const script = [
      '#!/bin/bash',
      `REAL=/usr/bin/${command}`,
      // --test-only and --version are no submissions and are not counted.
      ...(command === 'sbatch'
        ? ['case " $* " in *" --test-only "* | *" --version "*) exec $REAL "$@" ;; esac', `echo x >> ${directory}/calls`]
        : []),
      `CALL=$(cat ${directory}/calls 2>/dev/null | wc -l)`,
      body,
      'exec $REAL "$@"',
    ].join('\n');
    asUser(cluster, `cat > ${directory}/${command} <<'EOF'\n${script}\nEOF\nchmod +x ${directory}/${command}`);
  }
  return `export PATH=${directory}:$PATH`;
}

/** Waits until the condition holds; asks every quarter of a second. @throws Error naming what it waited for */
export async function until<T>(what: string, condition: () => T | undefined | false, seconds = 60): Promise<T> {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = condition();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > end) throw new Error(`waited ${seconds} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

export interface Lab {
  readonly cluster: ClusterEnvironment;
  readonly hub: GitHub;
  /** The checkout the action works in. */
  readonly workspace: string;
  /** Directories of this lab alone on the cluster. */
  readonly workdir: string;
  readonly save: string;
  /** Writes files on the branch of a pull request and commits them. @returns the commit */
  commit(files: Readonly<Record<string, string>>, branch?: string): string;
  /** Opens a pull request for what a branch holds. */
  openPull(branch?: string): PullRequest;
  /** Puts a label on and sends the event. */
  label(pull: PullRequest, name: string, run?: ActionRun): Promise<ActionResult>;
  /** The payload GitHub sends when `name` is put on. */
  labeled(pull: PullRequest, name: string, sender?: string): unknown;
  /** Takes a label off and sends the event. */
  unlabel(pull: PullRequest, name: string, run?: SentRun): Promise<ActionResult>;
  /** Closes a pull request, or merges it into its base branch, and sends the event. */
  closePull(pull: PullRequest, merged?: boolean, run?: SentRun): Promise<ActionResult>;
  /** Writes a comment and sends the event, with a checkout of main. */
  comment(pull: PullRequest, body: string, run?: CommentRun): Promise<ActionResult>;
  /** The payload GitHub sends when a comment was made. */
  commented(comment: Comment): unknown;
  dispatch(inputs: Readonly<Record<string, string>>, run?: ActionRun): Promise<ActionResult>;
  /** The hour of a cron line has come, on main. */
  schedule(run?: ActionRun): Promise<ActionResult>;
  close(): Promise<void>;
}

/** What somebody else than alice may have done. */
export interface SentRun extends ActionRun {
  readonly sender?: string;
}

export interface CommentRun extends SentRun {
  /** What the sender is to the repository; MEMBER with write permission and else NONE unless said. */
  readonly association?: Association;
  /** On an issue opened for it, which is no pull request. */
  readonly onIssue?: boolean;
}

export interface LabOptions {
  /** Fields of clusters.<name> that differ from the real ones. */
  readonly clusterFields?: Readonly<Record<string, unknown>>;
  /** More of .github/slurm-chain.yml, as yaml text. */
  readonly config?: string;
}

/** The cluster that script/test brought up. */
export function testCluster(): ClusterEnvironment {
  const directory = process.env['CLUSTER_DIR'];
  if (directory === undefined)
    throw new Error('CLUSTER_DIR is not set: run script/test, or script/cluster up --dir DIR and CLUSTER_DIR=DIR');
  return readCluster(directory);
}

/** A cluster for one test file alone, for tests that change what others would notice. @param options of script/cluster up */
export function ownCluster(...options: string[]): { readonly cluster: ClusterEnvironment; down(): void } {
  const directory = mkdtempSync(join(tmpdir(), 'slurm-chain-own-'));
  const script = (...args: string[]) => execFileSync(join(ROOT, 'script/cluster'), args, { stdio: ['ignore', 'pipe', 'pipe'] });
  script('up', '--dir', directory, '--node-count', '1', ...options);
  return { cluster: readCluster(directory), down: () => script('down', '--dir', directory) };
}

/** An experiment for examples/regression/train.py. @param more further top-level yaml */
export function regression(
  lab: Lab,
  { name = 'smoke', nSteps = 500, secondsPerStep = 0.002, nJobs = 2, grid = '', more = '' } = {},
): string {
  return [
    `name: ${name}`,
    'run: python3 train.py',
    'setup: echo setup ran',
    'slurm: {gres: "gpu:1", time: "00:05:00"}',
    `chain: {n_jobs: ${nJobs}}`,
    `save: {path: ${lab.save}}`,
    `n_steps: ${nSteps}`,
    more,
    'train:',
    grid === '' ? '  lr: 0.1' : `  ${grid}`,
    '  save_every: 20',
    `  seconds_per_step: ${secondsPerStep}`,
    '',
  ].join('\n');
}

export interface JournalLine {
  readonly event: string;
  readonly step: number;
  readonly cell: number;
  readonly job: string;
  readonly restart: number;
  readonly resumed_from?: string | null;
  readonly next_step?: number;
  readonly newest?: string | null;
  readonly exit?: number;
  readonly signal?: string | null;
  readonly new_checkpoint?: boolean;
  readonly moved_aside?: readonly string[];
}

export function journalOf(checkpoints: string, cell: number): JournalLine[] {
  const text = readFileSync(join(checkpoints, '.chain', `${cell}.jsonl`), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as JournalLine);
}

/** State and exit code of every task of these arrays of so many cells, by `job_task`, once all have ended. */
export async function endOf(
  cluster: ClusterEnvironment,
  jobs: readonly string[],
  { cells = 1, seconds = 120 } = {},
): Promise<Map<string, string>> {
  return until(
    `jobs ${jobs.join(' ')} to end`,
    () => {
      if (slurm(cluster, 'squeue', '-h', '-j', jobs.join(',')) !== '') return undefined;
      const rows = slurm(cluster, 'sacct', '-X', '-n', '-P', '-j', jobs.join(','), '-o', 'JobID,State,ExitCode').split('\n');
      const states = new Map(rows.map((row) => [row.split('|')[0] ?? '', row.split('|').slice(1).join(' ')]));
      // Accounting lags: until it has caught up, tasks are missing, still pending, or one row stands for the array.
      const settled = [...states].every(
        ([id, state]) => /^CANCELLED/.test(state) || (/_\d+$/.test(id) && !/PENDING|RUNNING|COMPLETING/.test(state)),
      );
      const rowsOf = (job: string) => [...states.keys()].filter((id) => id.startsWith(`${job}_`));
      // One row with a range stands for what never ran.
      const all = jobs.every((job) => rowsOf(job).length === cells || rowsOf(job).some((id) => id.includes('[')));
      return settled && all ? states : undefined;
    },
    seconds,
  );
}

const TOKEN = 'ghs_test_token';

/** On pull_request events GITHUB_SHA is the temporary merge commit, which nobody has approved. */
const MERGE_COMMIT = 'f'.repeat(40);

type Json = Record<string, unknown>;

/** A payload GitHub publishes as an example. */
function published(name: string, action: string): Json {
  const example = (examples as unknown as { name: string; examples: Json[] }[])
    .find((one) => one.name === name)
    ?.examples.find((one) => one['action'] === action);
  if (example === undefined) throw new Error(`no published example of ${name} ${action}`);
  return structuredClone(example);
}

/** A part of a payload with some of its fields replaced. */
function having(part: unknown, fields: Json): Json {
  return { ...(part as Json), ...fields };
}

export async function makeLab(cluster: ClusterEnvironment, name: string, options: LabOptions = {}): Promise<Lab> {
  const directory = mkdtempSync(join(tmpdir(), `slurm-chain-lab-${name}-`));
  const bare = join(directory, 'repo.git');
  const author = join(directory, 'author');
  const workspace = join(directory, 'workspace');
  const git = (where: string, ...args: string[]) =>
    execFileSync('git', ['-C', where, '-c', 'user.name=Alice', '-c', 'user.email=alice@example.edu', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim();

  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', bare]);
  execFileSync('git', ['clone', '--quiet', bare, author], { stdio: 'ignore' });
  const workdir = String(options.clusterFields?.['workdir'] ?? join(cluster.CLUSTER_WORKDIR, name));
  const save = join(cluster.CLUSTER_SAVE, name);
  const fields = {
    host: cluster.CLUSTER_HOST,
    port: Number(cluster.CLUSTER_PORT),
    user: cluster.CLUSTER_USER,
    workdir,
    known_hosts: readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8').trim(),
    ...options.clusterFields,
  };
  const write = (files: Readonly<Record<string, string>>) => {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(join(author, dirname(path)), { recursive: true });
      writeFileSync(join(author, path), content);
    }
  };
  write({
    '.github/slurm-chain.yml': `clusters: {entropy: ${JSON.stringify(fields)}}\n${options.config ?? ''}`,
    'README.md': 'a repository of experiments\n',
  });
  cpSync(join(ROOT, 'examples/regression/train.py'), join(author, 'train.py'));
  git(author, 'switch', '--quiet', '-c', 'main');
  git(author, 'add', '-A');
  git(author, 'commit', '--quiet', '-m', 'Start');
  git(author, 'push', '--quiet', 'origin', 'main');

  const hub = await startGitHub(bare);
  hub.permissions.set('alice', 'admin');
  hub.tokens.set(TOKEN, 'github-actions[bot]');
  execFileSync('git', ['clone', '--quiet', '--depth=1', `file://${bare}`, workspace], { stdio: 'ignore' });

  const environment = (sha: string) => ({
    GITHUB_API_URL: hub.url,
    GITHUB_GRAPHQL_URL: `${hub.url}/graphql`,
    GITHUB_SERVER_URL: hub.url,
    GITHUB_REPOSITORY: hub.repository,
    GITHUB_WORKSPACE: workspace,
    GITHUB_TOKEN: TOKEN,
    GITHUB_ACTOR: 'alice',
    GITHUB_TRIGGERING_ACTOR: 'alice',
    GITHUB_SHA: sha,
  });
  const key = readFileSync(cluster.CLUSTER_KEY, 'utf8');
  const start = (sha: string, run: ActionRun, eventName: string, event: unknown) =>
    runAction({
      eventName,
      event,
      ...run,
      inputs: { 'ssh-key': key, ...run.inputs },
      environment: { ...environment(sha), ...run.environment },
    });

  const by = ({ sender = 'alice', ...run }: SentRun): ActionRun => ({
    ...run,
    environment: { GITHUB_ACTOR: sender, GITHUB_TRIGGERING_ACTOR: sender, ...run.environment },
  });
  /** For events that belong to no branch GitHub takes the default one. */
  const startOnMain = (run: ActionRun, eventName: string, event: unknown) => {
    const head = git(bare, 'rev-parse', 'main');
    if (git(workspace, 'rev-parse', 'HEAD') !== head) {
      git(workspace, 'fetch', '--quiet', '--depth=1', 'origin', 'main');
      git(workspace, 'checkout', '--quiet', '-B', 'main', 'FETCH_HEAD');
    }
    return start(head, run, eventName, event);
  };
  const nextNumber = () => hub.pulls.length + hub.issues.length + 1;
  const labelTemplate = published('pull_request', 'labeled')['label'];
  const labelNamed = (name: string) => having(labelTemplate, { name });
  const pullEvent = (action: string, pull: PullRequest, sender: string): Json => {
    const event = published('pull_request', action);
    const body = event['pull_request'] as Json;
    const head = body['head'] as Json;
    const base = body['base'] as { repo: { id: number } };
    return {
      ...event,
      number: pull.number,
      sender: having(event['sender'], { login: sender }),
      pull_request: {
        ...body,
        number: pull.number,
        title: pull.title,
        state: pull.state,
        closed_at: pull.state === 'closed' ? body['updated_at'] : null,
        merged: pull.mergeCommit !== undefined,
        merged_at: pull.mergeCommit === undefined ? null : body['updated_at'],
        merge_commit_sha: pull.mergeCommit ?? MERGE_COMMIT,
        labels: pull.labels.map(labelNamed),
        head: {
          ...head,
          sha: hub.headOf(pull),
          ref: pull.branch,
          repo: having(head['repo'], { id: pull.fork ? base.repo.id + 1 : base.repo.id }),
        },
        base: { ...base, sha: hub.baseOf(pull), ref: pull.base },
      },
    };
  };

  const lab: Lab = {
    cluster,
    hub,
    workspace,
    workdir,
    save,
    commit(files, branch = 'experiment') {
      const exists = git(author, 'branch', '--list', branch) !== '';
      git(author, 'switch', '--quiet', ...(exists ? [branch] : ['-c', branch, 'main']));
      write(files);
      git(author, 'add', '-A');
      git(author, 'commit', '--quiet', '-m', 'Try something');
      git(author, 'push', '--quiet', 'origin', branch);
      return git(author, 'rev-parse', 'HEAD');
    },
    openPull(branch = 'experiment') {
      const pull: PullRequest = {
        number: nextNumber(),
        title: 'Try something',
        branch,
        base: 'main',
        fork: false,
        mergeCommit: undefined,
        labels: [],
        state: 'open',
      };
      hub.pulls.push(pull);
      return pull;
    },
    labeled(pull, name, sender = 'alice') {
      return { ...pullEvent('labeled', pull, sender), label: labelNamed(name) };
    },
    label(pull, name, run = {}) {
      pull.labels = [...new Set([...pull.labels, name])];
      return start(MERGE_COMMIT, run, 'pull_request', lab.labeled(pull, name));
    },
    unlabel(pull, name, run = {}) {
      pull.labels = pull.labels.filter((other) => other !== name);
      const event = { ...pullEvent('unlabeled', pull, run.sender ?? 'alice'), label: labelNamed(name) };
      return start(MERGE_COMMIT, by(run), 'pull_request', event);
    },
    closePull(pull, merged = false, run = {}) {
      if (merged) {
        const branch = git(author, 'branch', '--show-current');
        git(author, 'switch', '--quiet', pull.base);
        git(author, 'merge', '--quiet', '--no-ff', '-m', `Merge pull request #${pull.number}`, pull.branch);
        git(author, 'push', '--quiet', 'origin', pull.base);
        pull.mergeCommit = git(author, 'rev-parse', 'HEAD');
        git(author, 'switch', '--quiet', branch);
      }
      pull.state = 'closed';
      // Merged, it is an event of the base branch.
      return start(pull.mergeCommit ?? MERGE_COMMIT, by(run), 'pull_request', pullEvent('closed', pull, run.sender ?? 'alice'));
    },
    comment(pull, body, { association, onIssue = false, ...run } = {}) {
      const { sender = 'alice' } = run;
      let issue: Issue = pull;
      if (onIssue) {
        issue = { number: nextNumber(), title: pull.title, labels: [], state: 'open' };
        hub.issues.push(issue);
      }
      const writes = ['admin', 'write'].includes(hub.permissions.get(sender) ?? '');
      const comment = hub.addComment(issue.number, sender, body, association ?? (writes ? 'MEMBER' : 'NONE'));
      return startOnMain(by(run), 'issue_comment', lab.commented(comment));
    },
    commented(comment) {
      const event = published('issue_comment', 'created');
      const pull = hub.pulls.find((candidate) => candidate.number === comment.pull);
      const issue = pull ?? hub.issues.find((candidate) => candidate.number === comment.pull);
      if (issue === undefined) throw new Error(`comment ${comment.id} is on #${comment.pull}, which does not exist`);
      const page = `${hub.url}/${hub.repository}/${pull ? 'pull' : 'issues'}/${issue.number}`;
      const api = `${hub.url}/repos/${hub.repository}`;
      // None of the published examples is on a pull request; this is the field that tells (issues/get describes it).
      const link = {
        url: `${api}/pulls/${issue.number}`,
        html_url: page,
        diff_url: `${page}.diff`,
        patch_url: `${page}.patch`,
        merged_at: pull?.mergeCommit === undefined ? null : (event['issue'] as Json)['updated_at'],
      };
      const sender = having(event['sender'], { login: comment.author, type: comment.author.endsWith('[bot]') ? 'Bot' : 'User' });
      return {
        ...event,
        sender,
        issue: having(event['issue'], {
          url: `${api}/issues/${issue.number}`,
          html_url: page,
          number: issue.number,
          title: issue.title,
          state: issue.state,
          labels: issue.labels.map(labelNamed),
          ...(pull && { pull_request: link }),
        }),
        comment: having(event['comment'], {
          url: `${api}/issues/comments/${comment.id}`,
          html_url: `${page}#issuecomment-${comment.id}`,
          issue_url: `${api}/issues/${issue.number}`,
          id: comment.id,
          user: sender,
          author_association: comment.association ?? 'NONE',
          body: comment.body,
        }),
      };
    },
    dispatch(inputs, run = {}) {
      const sha = run.environment?.['GITHUB_SHA'] ?? git(author, 'rev-parse', 'HEAD');
      return start(sha, { ...run, inputs: { ...inputs, ...run.inputs } }, 'workflow_dispatch', { inputs: {} });
    },
    schedule(run = {}) {
      // The actor is who last changed the workflow's cron line.
      return startOnMain(run, 'schedule', { schedule: '17 */6 * * *' });
    },
    async close() {
      await hub.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return lab;
}
