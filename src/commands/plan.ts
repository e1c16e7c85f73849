import { Problem } from '../base/problem.ts';
import type { Places } from '../chain/layout.ts';
import { nextLaunch } from '../chain/ledger.ts';
import { manifestOf, type NewLaunch } from '../chain/manifest.ts';
import { type LaunchName, planOf } from '../chain/plan.ts';
import { canLogIn } from '../cluster/connection.ts';
import { withLogin } from '../cluster/login.ts';
import { type Probe, probe } from '../cluster/programs/probe.ts';
import type { Experiment } from '../experiment/experiment.ts';
import { type Code, codeOf } from '../repo/code.ts';
import { subjectOf } from '../repo/git.ts';
import type { Report } from '../report/report.ts';
import { notesOnCode, notesOnSettings, reportBasis, submissionsOf } from './basis.ts';
import type { Context } from './context.ts';
import { megabytes } from './launch/ensure-staged.ts';
import { noClusters, notesOnSite } from './site.ts';

/**
 * Everything that a launch does before the first sbatch. `sbatch --test-only` is part of it if there is a cluster and a key.
 * @throws Problem for everything that would make a launch fail before its first sbatch
 */
export async function plan(context: Context, experiment: Experiment): Promise<Report> {
  const code = await codeOf(context.repo, experiment.commit, experiment.settings.exclude);
  for (const cell of experiment.cells) cell.config(); // fails now if it cannot be written
  const seen = await look(context, experiment, code);
  const places: Places = seen?.places ?? { workdir: experiment.cluster?.workdir ?? '{workdir}', savePath: experiment.settings.save.path };
  const next: LaunchName | undefined = seen && nextLaunch(seen.ledger);
  const planned = planOf(experiment, places, next);
  const launch: NewLaunch = { ...context.launcher, command: 'launch', slurm: '', sbatchVariables: [], jobScript: '' };
  const subject = await subjectOf(context.repo, experiment.commit);
  const manifest = manifestOf({ experiment, code, places, plan: planned, subject, launch, earlier: [] });
  return {
    ...reportBasis(manifest),
    ...{ command: 'plan', state: 'planned', jobs: [], commands: undefined },
    submissions: submissionsOf(planned),
    notes: [
      ...[...notesOnSite(context), ...notesOnCode(code), ...notesOnSettings(experiment, context.secrets)],
      ...notesOnLook(context, experiment, code, seen),
    ],
  };
}

/** @returns undefined if there is no cluster to ask, or no key */
async function look({ credentials, log }: Context, experiment: Experiment, code: Code): Promise<Probe | undefined> {
  const { cluster } = experiment;
  if (cluster === undefined || !canLogIn(cluster, credentials)) return undefined;
  log.info(`connecting to ${cluster.login.user}@${cluster.login.host}`);
  const seen = await withLogin(cluster, credentials, (login) => probe(login, experiment, code));
  if (!seen.testOnly.accepted) throw new Problem(`sbatch --test-only on ${cluster.name} says: ${seen.testOnly.message}`);
  return seen;
}

function notesOnLook(context: Context, { cluster }: Experiment, code: Code, seen: Probe | undefined): string[] {
  if (seen === undefined) {
    return [`Planned without asking a cluster: ${cluster === undefined ? noClusters(context).message : 'there is no ssh-key'}.`];
  }
  return [
    ...seen.notes,
    `sbatch --test-only on ${cluster?.name}: ${seen.testOnly.message}`,
    `The code (${code.files} files, ${megabytes(code.bytes)}) is ${seen.codeStaged ? 'already' : 'not yet'} on the cluster.`,
  ];
}
