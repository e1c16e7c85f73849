import { Problem } from '../base/problem.ts';
import { nextLaunch } from '../chain/ledger.ts';
import { manifestOf } from '../chain/manifest.ts';
import { type LaunchName, type Places, planOf } from '../chain/plan.ts';
import { connect } from '../cluster/connection.ts';
import { probe } from '../cluster/programs/probe.ts';
import { codeOf } from '../repo/code.ts';
import { subjectOf } from '../repo/git.ts';
import type { Report } from '../report/report.ts';
import { notesOnCode, notesOnSettings, type Order, reportBasis, submissionsOf } from './command.ts';

/**
 * Everything a launch does up to the first sbatch, `sbatch --test-only` included where there is a cluster and a key to it.
 * @throws Problem for all that would make a launch fail before its first sbatch
 */
export async function plan(order: Order): Promise<Report> {
  const { experiment, credentials, progress } = order;
  const code = await codeOf(order.repo, experiment.commit, experiment.settings.exclude);
  for (const cell of experiment.cells) cell.config(); // what cannot be written is better known now
  const notes = [...notesOnCode(code), ...notesOnSettings(experiment, order.secrets)];
  let places: Places = { workdir: experiment.cluster?.workdir ?? '{workdir}', savePath: experiment.settings.save.path };
  let next: LaunchName | undefined;
  if (experiment.cluster === undefined || credentials === undefined) {
    notes.push(
      `Planned without asking a cluster: there is no ${experiment.cluster === undefined ? 'cluster in .github/slurm-chain.yml' : 'ssh-key'}.`,
    );
  } else {
    progress(`asking ${experiment.cluster.name}`);
    const connection = await connect(experiment.cluster, credentials);
    try {
      const seen = await probe(connection, experiment.cluster, experiment, code);
      if (!seen.testOnly.accepted) throw new Problem(`sbatch --test-only on ${experiment.cluster.name} says: ${seen.testOnly.said}`);
      places = seen.places;
      next = nextLaunch(seen.ledger);
      notes.push(`sbatch --test-only on ${experiment.cluster.name}: ${seen.testOnly.said}`);
      notes.push(
        `The code (${code.files} files, ${(code.bytes / 1e6).toFixed(1)} MB) is ${seen.codeStaged ? 'there already' : 'not there yet'}.`,
      );
    } finally {
      connection.close();
    }
  }
  const planned = planOf(experiment, places, next);
  const launch = { ...order.launcher, command: 'launch', slurm: '', sbatchVariables: [], jobScript: '' } as const;
  const manifest = manifestOf(experiment, code, places, planned, await subjectOf(order.repo, experiment.commit), launch, []);
  return {
    ...reportBasis(manifest),
    command: 'plan',
    state: 'planned',
    submissions: submissionsOf(planned),
    jobs: [],
    commands: undefined,
    notes,
  };
}
