// A repository, pull requests and an experiment to launch, on a real cluster and the GitHub stand-in.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { type Association, type Comment, type GitHub, type Issue, type PullRequest, startGitHub } from '../github/server.ts';
import { type ActionResult, type ActionRun, runAction } from './action.ts';
import { type ClusterEnvironment, slurm } from './cluster.ts';
import { commentEvent, labelEvent, MERGE_COMMIT, pullEvent } from './events.ts';
import { type RegressionOptions, regression } from './experiment.ts';
import { type Files, makeRepository } from './repository.ts';

export interface Lab {
  readonly cluster: ClusterEnvironment;
  readonly hub: GitHub;
  /** The checkout the action works in. */
  readonly workspace: string;
  /** Directories of this lab alone on the cluster. */
  readonly workdir: string;
  readonly save: string;
  /** Writes files on the branch of a pull request and commits them. @returns the commit */
  commit(files: Files, branch?: string): string;
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
  /** @throws AssertionError when GitHub would not have taken a request, or not given an answer */
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
  /** The regression to commit as configs/NAME.yaml, named like the lab. */
  readonly experiment?: RegressionOptions;
  /** Fields of clusters.<name> that differ from the real ones. */
  readonly clusterFields?: Readonly<Record<string, unknown>>;
  /** More of .github/slurm-chain.yml, as yaml text. */
  readonly config?: string;
}

const TOKEN = 'ghs_test_token';

/**
 * Labs of one test file, all of them closed when its tests are over.
 * @param defaults for every lab
 * @returns a function that makes one
 */
export function useLabs(cluster: ClusterEnvironment, defaults: LabOptions = {}): (name: string, options?: LabOptions) => Promise<Lab> {
  const labs: Lab[] = [];
  after(async () => {
    cancelUnder(cluster, new Set(labs.map((lab) => lab.workdir)));
    // All of them, before the first problem is told: a server that stays open keeps the process alive.
    const closed = await Promise.allSettled(labs.map((lab) => lab.close()));
    for (const one of closed) if (one.status === 'rejected') throw one.reason;
  });
  return async (name, options = {}) => {
    const experiment = { ...defaults.experiment, ...options.experiment };
    const wanted = defaults.experiment ?? options.experiment;
    const lab = await makeLab(cluster, name, { ...defaults, ...options, ...(wanted && { experiment }) });
    labs.push(lab);
    return lab;
  };
}

/** Cancels the jobs of these work directories, which would be in the way of the next test file. */
function cancelUnder(cluster: ClusterEnvironment, workdirs: ReadonlySet<string>): void {
  if (!existsSync(join(cluster.CLUSTER_DIR, 'env'))) return; // a file's own cluster, taken down by now
  const rows = slurm(cluster, 'squeue', '-a', '-h', '-o', '%F %Z').split('\n');
  const ids = rows.filter((row) => workdirs.has(row.slice(row.indexOf(' ') + 1).replace(/\/experiments\/.*/, '')));
  if (ids.length > 0) slurm(cluster, 'scancel', ...ids.map((row) => row.slice(0, row.indexOf(' '))).toReversed());
}

/** Whoever makes a lab closes it; tests let useLabs do both. */
export async function makeLab(cluster: ClusterEnvironment, name: string, options: LabOptions = {}): Promise<Lab> {
  // A cluster may have seen the same test before.
  const own = `${name}-${process.pid}`;
  const workdir = String(options.clusterFields?.['workdir'] ?? join(cluster.CLUSTER_WORKDIR, own));
  const save = join(cluster.CLUSTER_SAVE, own);
  const fields = {
    host: cluster.CLUSTER_HOST,
    port: Number(cluster.CLUSTER_PORT),
    user: cluster.CLUSTER_USER,
    workdir,
    known_hosts: readFileSync(cluster.CLUSTER_KNOWN_HOSTS, 'utf8').trim(),
    ...options.clusterFields,
  };
  const repository = makeRepository(name, {
    '.github/slurm-chain.yml': `clusters: {entropy: ${JSON.stringify(fields)}}\n${options.config ?? ''}`,
    'README.md': 'a repository of experiments\n',
  });
  const hub = await startGitHub(repository.bare);
  hub.permissions.set('alice', 'admin');
  hub.tokens.set(TOKEN, 'github-actions[bot]');

  const key = readFileSync(cluster.CLUSTER_KEY, 'utf8');
  const start = (sha: string, { sender = 'alice', ...run }: SentRun, eventName: string, event: unknown) =>
    runAction({
      eventName,
      event,
      ...run,
      inputs: { 'ssh-key': key, ...run.inputs },
      environment: {
        GITHUB_API_URL: hub.url,
        GITHUB_GRAPHQL_URL: `${hub.url}/graphql`,
        GITHUB_SERVER_URL: hub.url,
        GITHUB_REPOSITORY: hub.repository,
        GITHUB_WORKSPACE: repository.workspace,
        GITHUB_TOKEN: TOKEN,
        GITHUB_ACTOR: sender,
        GITHUB_TRIGGERING_ACTOR: sender,
        GITHUB_SHA: sha,
        ...run.environment,
      },
    });
  /** Events that belong to no branch get the default one. */
  const startOnMain = (run: SentRun, eventName: string, event: unknown) => start(repository.checkOutMain(), run, eventName, event);
  const nextNumber = () => hub.pulls.length + hub.issues.length + 1;

  const lab: Lab = {
    cluster,
    hub,
    workspace: repository.workspace,
    workdir,
    save,
    commit: (files, branch = 'experiment') => repository.commit(files, branch),
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
    labeled: (pull, name, sender = 'alice') => labelEvent(hub, 'labeled', pull, name, sender),
    label(pull, name, run = {}) {
      pull.labels = [...new Set([...pull.labels, name])];
      return start(MERGE_COMMIT, run, 'pull_request', lab.labeled(pull, name));
    },
    unlabel(pull, name, run = {}) {
      pull.labels = pull.labels.filter((other) => other !== name);
      return start(MERGE_COMMIT, run, 'pull_request', labelEvent(hub, 'unlabeled', pull, name, run.sender ?? 'alice'));
    },
    closePull(pull, merged = false, run = {}) {
      if (merged) pull.mergeCommit = repository.merge(pull.branch, pull.base, `Merge pull request #${pull.number}`);
      pull.state = 'closed';
      // Merged, it is an event of the base branch.
      return start(pull.mergeCommit ?? MERGE_COMMIT, run, 'pull_request', pullEvent(hub, 'closed', pull, run.sender ?? 'alice'));
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
      return startOnMain(run, 'issue_comment', lab.commented(comment));
    },
    commented: (comment) => commentEvent(hub, comment),
    dispatch(inputs, run = {}) {
      const sha = run.environment?.['GITHUB_SHA'] ?? repository.tip();
      return start(sha, { ...run, inputs: { ...inputs, ...run.inputs } }, 'workflow_dispatch', { inputs: {} });
    },
    // The actor is who last changed the workflow's cron line.
    schedule: (run = {}) => startOnMain(run, 'schedule', { schedule: '17 */6 * * *' }),
    async close() {
      await hub.close();
      rmSync(repository.directory, { recursive: true, force: true });
      assert.deepEqual(hub.violations, [], `${name}: every request and answer is one that GitHub describes`);
    },
  };
  if (options.experiment) lab.commit({ [`configs/${name}.yaml`]: regression(lab, { name, ...options.experiment }) });
  return lab;
}
