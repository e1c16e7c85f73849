import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { experimentFiles, logName, saveDirectory, savedRecords, sharedCode } from '../../src/chain/layout.ts';
import { RUNTIME } from '../../src/cluster/runtime.ts';

test('the shell and TypeScript name the same files', () => {
  const files = experimentFiles('/w', 'smoke-1');
  const save = saveDirectory('/ckpt', 'smoke-1');
  const saved = savedRecords(save);
  const expected = {
    DIR: files.directory,
    MANIFEST: files.manifest,
    SUMMARY: files.summary,
    LEDGER: files.ledger,
    JOB_SCRIPT: files.jobScript,
    RUN_SCRIPT: files.runScript,
    TASK_VARIABLES: files.taskVariables,
    SECRETS: files.secrets,
    CODE: files.code,
    CONFIGS: files.configs,
    LOGS: files.logs,
    RECORDS: saved.records,
    SAVED_MANIFEST: saved.manifest,
    SAVED_SUMMARY: saved.summary,
    SHARED_CODE: sharedCode('/w', 'c0de'),
  };
  const script = `${RUNTIME.layout}
    experiment_layout /w smoke-1 && save_layout ${save} && shared_code /w c0de
    for name; do printf '%s %s\\n' "$name" "\${!name}"; done`;
  const lines = execFileSync('bash', ['-c', script, 'bash', ...Object.keys(expected)], { encoding: 'utf8' })
    .trim()
    .split('\n');
  assert.deepEqual(Object.fromEntries(lines.map((line) => line.split(' '))), expected);
});

test('the name of a log', () => assert.equal(logName(2, '4711', 3), '2_4711_3.out'));
